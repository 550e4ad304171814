package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
)

// Bounds on one script call: the server serves nobody else meanwhile.
const (
	maxRuns  = 128
	maxEqual = 1024
)

// sameTime is how far apart the deadlines of equal requests may be to be decided
// together: they then share the earliest.
const sameTime = 2 * time.Millisecond

// TakeBatch decides calls in their order, in as few script calls as there can be: one
// per 128 subjects on a single server, one per subject on a Cluster. Equal requests are
// decided as one. See [stint.BatchStore].
func (s *Store) TakeBatch(ctx context.Context, batch []*stint.Call) {
	late := s.takeBatch(ctx, batch)
	if len(late) > 0 && ctx.Err() == nil {
		// There is time yet: the server's clock was set. It has told its new time.
		s.takeBatch(ctx, late)
	}
	for _, c := range batch {
		c.Err = s.wrap("take", c.Err)
	}
}

// takeBatch returns the calls that the server held to be too late, but are not.
func (s *Store) takeBatch(ctx context.Context, batch []*stint.Call) (late []*stint.Call) {
	var group sync.WaitGroup
	defer group.Wait()
	p := plans.Get().(*plan)
	defer p.free()
	p.store = s
	for _, c := range batch {
		if s.cluster && len(c.Request.And) > 0 {
			group.Go(func() { c.Decision, c.Err = s.takeSplit(ctx, &c.Request) })
			continue
		}
		p.add(c)
	}
	scripts := p.divide()
	client := s.conn.get()
	commands := make([]rueidis.Completed, len(scripts))
	for i := range scripts {
		commands[i] = scripts[i].command(client, false)
	}
	answers := send(ctx, client, commands)
	for i := range scripts {
		reply, err := text(answers[i])
		if nothingRan(err) {
			reply, err = text(client.Do(ctx, scripts[i].command(client, true)))
		}
		late = scripts[i].answer(reply, err, late)
	}
	return late
}

func send(ctx context.Context, client rueidis.Client, commands []rueidis.Completed) []rueidis.RedisResult {
	switch len(commands) {
	case 0:
		return nil
	case 1:
		return []rueidis.RedisResult{client.Do(ctx, commands[0])}
	}
	return client.DoMulti(ctx, commands...)
}

// run is equal requests, decided together in the order of the batch.
type run struct {
	calls    []*stint.Call
	deadline time.Time // the earliest
	joinable bool
}

// plan turns calls into runs, and runs into script calls.
type plan struct {
	store *Store
	runs  []run
	last  map[string]int // the last run of each subject
}

var plans = sync.Pool{New: func() any { return &plan{last: map[string]int{}} }}

func (p *plan) free() {
	for i := range p.runs {
		clear(p.runs[i].calls)
		p.runs[i].calls = p.runs[i].calls[:0]
	}
	p.store, p.runs = nil, p.runs[:0]
	clear(p.last)
	plans.Put(p)
}

// add puts the call into the last run of its subject if it is equal, and else into
// one of its own. Requests of different subjects do not concern each other: it does not
// matter that others came in between.
func (p *plan) add(c *stint.Call) {
	r := &c.Request
	joinable := canJoin(r)
	if joinable {
		if n := len(p.runs); n > 0 && p.runs[n-1].join(c) {
			return
		}
		if i, ok := p.last[r.Subject]; ok && p.runs[i].join(c) {
			return
		}
	}
	if len(p.runs) < cap(p.runs) {
		p.runs = p.runs[:len(p.runs)+1]
	} else {
		p.runs = append(p.runs, run{})
	}
	i := len(p.runs) - 1
	next := &p.runs[i]
	next.calls, next.deadline, next.joinable = append(next.calls[:0], c), c.Deadline, joinable
	p.last[r.Subject] = i
	for a := range r.And {
		p.last[r.And[a].Subject] = i
	}
}

// canJoin reports whether equal requests can be decided as one: a denial must not have
// a side effect, nor a charge a name, and what each would have seen must follow from what
// the last one sees.
func canJoin(r *stint.Request) bool {
	if r.Mode != stint.Take || r.ID != "" || len(r.And) > 0 || r.Fit || r.Lease > 0 ||
		r.Cost == 0 || r.Cost > stint.MaxUnits/maxEqual || r.Bans != nil && r.Bans.After > 0 {
		return false
	}
	for i := range r.Limits {
		switch l := &r.Limits[i]; l.Algorithm {
		case stint.Concurrency:
			return false
		case stint.Bucket:
			if _, rate := l.BucketScale(); rate != 1 {
				return false // its reset-after is rounded
			}
		}
	}
	return true
}

// join adds a call that can join to the run if it is equal to those in it.
func (q *run) join(c *stint.Call) bool {
	a, b := &q.calls[0].Request, &c.Request
	if !q.joinable || a.Subject != b.Subject || a.Scope != b.Scope || a.Cost != b.Cost || (a.Bans == nil) != (b.Bans == nil) ||
		len(q.calls) == maxEqual || q.deadline.IsZero() != c.Deadline.IsZero() ||
		c.Deadline.Sub(q.deadline).Abs() > sameTime ||
		len(a.Limits) != len(b.Limits) || &a.Limits[0] != &b.Limits[0] && !slices.Equal(a.Limits, b.Limits) {
		return false
	}
	if c.Deadline.Before(q.deadline) {
		q.deadline = c.Deadline
	}
	q.calls = append(q.calls, c)
	return true
}

// divide makes script calls of the runs.
func (p *plan) divide() []scriptCall {
	if p.store.cluster {
		return p.bySubject()
	}
	var out []scriptCall
	for runs := range slices.Chunk(p.runs, maxRuns) {
		out = append(out, p.store.pack(runs))
	}
	return out
}

// bySubject makes one script call for the runs of each subject: those of different
// subjects may be on different nodes.
func (p *plan) bySubject() []scriptCall {
	if len(p.runs) == len(p.last) { // as a rule
		out := make([]scriptCall, len(p.runs))
		for i := range p.runs {
			out[i] = p.store.pack(p.runs[i : i+1])
		}
		return out
	}
	var order []string
	of := map[string][]run{}
	for _, q := range p.runs {
		subject := q.calls[0].Request.Subject
		if of[subject] == nil {
			order = append(order, subject)
		}
		of[subject] = append(of[subject], q)
	}
	var out []scriptCall
	for _, subject := range order {
		for runs := range slices.Chunk(of[subject], maxRuns) {
			out = append(out, p.store.pack(runs))
		}
	}
	return out
}

// scriptCall is one call of take.lua or batch.lua.
type scriptCall struct {
	store  *Store
	script *script
	runs   []run
	call   uint64 // its id; those of the charges follow, or it is that of the only one
	keys   []string
	args   []string
}

func (s *Store) pack(runs []run) scriptCall {
	n, size := 0, 32
	for i := range runs {
		n += len(runs[i].calls)
		size += 17 + requestSize(&runs[i].calls[0].Request)
	}
	var limits specs
	k := keys{store: s, buf: make([]byte, 0, 64*len(runs)), ends: make([]int, 0, 2*len(runs))}
	if n == 1 {
		c := runs[0].calls[0]
		k.ofRequest(&c.Request)
		call := s.nextCall()
		return scriptCall{s, takeScript, runs, call, k.strings(), takeArgs(&c.Request, call, s.clock(), s.notAfter(runs[0].deadline))}
	}
	call := s.nextCalls(1 + n)
	b := make([]byte, 0, size)
	args := []string{""}
	id := call + 1
	for i := range runs {
		q := &runs[i]
		r := &q.calls[0].Request
		before := len(k.ends)
		k.ofRequest(r)
		b = be.AppendUint16(b, uint16(len(k.ends)-before))
		length := len(b)
		b = append(b, 0, 0, 0, 0)
		b = be.AppendUint16(b, uint16(len(q.calls)))
		b = append(b, oneIf(r.ID != ""))
		body := len(b)
		b = be.AppendUint64(b, id)
		b = appendRequest(b, r, s.notAfter(q.deadline), limits.of)
		be.PutUint32(b[length:], uint32(len(b)-body))
		if r.ID != "" {
			args = append(args, r.ID)
		}
		id += uint64(len(q.calls))
	}
	all := make([]byte, 0, 20+len(limits.packed)+len(b))
	all = be.AppendUint64(all, call)
	all = appendInt(all, s.clock())
	all = limits.appendTo(all)
	all = be.AppendUint16(all, uint16(len(runs)))
	args[0] = rueidis.BinaryString(append(all, b...))
	return scriptCall{s, batchScript, runs, call, k.strings(), args}
}

func (c *scriptCall) command(client rueidis.Client, whole bool) rueidis.Completed {
	if whole {
		return c.script.whole(client, c.keys, c.args)
	}
	return c.script.bySHA(client, c.keys, c.args)
}

// answer fills in what the reply says. It adds to late the calls that the server held
// to be too late, but are not.
func (c *scriptCall) answer(reply string, err error, late []*stint.Call) []*stint.Call {
	var in reader
	var now int64
	if err == nil {
		in, now, err = opening(reply, c.call)
	}
	if err != nil {
		for i := range c.runs {
			fail(c.runs[i].calls, err)
		}
		return late
	}
	id := c.call
	if c.script == batchScript {
		id++
	}
	tooLate := false
	for i := range c.runs {
		calls := c.runs[i].calls
		for len(calls) > 0 {
			n, err := in.answerRun(calls, id)
			if err == errLate {
				tooLate = true
				for _, call := range calls {
					if time.Until(call.Deadline) > 0 {
						late = append(late, call)
					}
				}
			}
			id += uint64(n)
			calls = calls[n:]
		}
	}
	c.store.heard(now, tooLate)
	if err := in.end(); err != nil {
		for i := range c.runs {
			fail(c.runs[i].calls, err)
		}
	}
	return late
}

func fail(calls []*stint.Call, err error) {
	for _, c := range calls {
		c.Decision, c.Err = stint.Decision{}, err
	}
}

// answerRun fills in the next answer of a run, and returns how many calls it is for:
// those that were allowed together, or all.
func (in *reader) answerRun(calls []*stint.Call, id uint64) (int, error) {
	r := &calls[0].Request
	d, units, err := in.decision(r, id)
	if err != nil {
		fail(calls, err)
		return len(calls), err
	}
	n := len(calls)
	if d.Allowed && n > 1 {
		n = int(units / r.Cost)
		if n < 1 || n > len(calls) || units%r.Cost != 0 {
			err := errReply("a field is out of range")
			fail(calls, err)
			return len(calls), err
		}
	}
	usages := d.Usages()
	for i, c := range calls[:n] {
		c.Decision, c.Err = d, nil
		if n == 1 {
			break
		}
		c.Decision.Charge.Claim = c.Request.Claim
		own := c.Decision.Grow(len(usages))
		copy(own, usages)
		if d.Allowed {
			c.Decision.Charge.ID = id + uint64(i)
			for j := range own { // as it was when it was this one's turn
				later := int64(n-1-i) * r.Cost
				own[j].Used -= later
				if l := &r.Limits[j]; l.Algorithm == stint.Bucket {
					unit, _ := l.BucketScale()
					own[j].ResetAfter -= micros(later * unit)
				}
			}
		}
	}
	return n, nil
}
