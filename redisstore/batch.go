package redisstore

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
)

// Bounds on one script call: the server serves nobody else meanwhile.
const (
	maxRuns  = 128
	maxParts = 128
	maxEqual = 1024
)

// sameTime is how far apart the deadlines of equal requests may be to be decided
// together: they then share the earliest.
const sameTime = 2 * time.Millisecond

// TakeBatch decides calls in their order, in as few script calls as there can be: one
// per 128 subjects on a single server, one per subject on a Cluster. Equal requests are
// decided as one. See [stint.BatchStore].
func (s *Store) TakeBatch(ctx context.Context, batch []*stint.Call) {
	p := newPlan()
	defer p.free()
	var group sync.WaitGroup
	defer group.Wait() // before the plan is freed
	for _, c := range batch {
		if s.cluster && len(c.Request.And) > 0 {
			group.Go(func() { s.takeSplitCall(ctx, c) })
			continue
		}
		p.add(c)
	}
	if !s.cluster {
		s.decide(ctx, p.runs)
		return
	}
	// Each subject on its own: a node that is silent holds up those on it only. The client
	// sends together what goes to one node.
	for _, runs := range p.bySubject() {
		group.Go(func() { s.decide(ctx, runs) })
	}
}

// takeSplitCall decides a call on several subjects, in the time of its own caller.
func (s *Store) takeSplitCall(ctx context.Context, c *stint.Call) {
	if !c.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.Deadline)
		defer cancel()
	}
	c.Decision, c.Err = s.takeSplit(ctx, &c.Request)
	s.done(c)
}

// decide answers the calls of the runs, one script call after the other: a subject may
// be in several, and a call that is sent again must not come behind the next.
func (s *Store) decide(ctx context.Context, runs []run) {
	for chunk := range chunks(runs) {
		if late := s.send(ctx, chunk, s.nextCalls(ids(chunk))); len(late) > 0 && ctx.Err() == nil {
			// There is time yet: the server's clock was set. It has told its new time.
			again := newPlan()
			for _, c := range late {
				again.add(c)
			}
			for chunk := range chunks(again.runs) {
				s.send(ctx, chunk, s.nextCalls(ids(chunk)))
			}
			again.free()
		}
		for i := range chunk {
			for _, c := range chunk[i].calls {
				s.done(c)
			}
		}
	}
}

// done hands an answered call back. On a Cluster it is the caller's from then on; a single
// server answers them all together as a rule.
func (s *Store) done(c *stint.Call) {
	if c.Err == nil {
		s.names.Load().note(&c.Request, &c.Decision)
	}
	c.Err = s.wrap("take", c.Err)
	if s.cluster && c.Done != nil {
		c.Done()
	}
}

// send makes one script call, under the first of as many ids as it needs. It returns the
// calls that the server held to be too late, but are not.
func (s *Store) send(ctx context.Context, runs []run, call uint64) (late []*stint.Call) {
	c, err := s.pack(runs, call)
	if err != nil {
		return c.answer("", err)
	}
	reply, err := takeScript.run(ctx, s.conn.get(), c.keys, c.args)
	if moving(err) {
		return c.refused(ctx)
	}
	return c.answer(reply, err)
}

// ids is how many a script call with these runs needs: its own and one for each charge.
func ids(runs []run) int {
	n := 1
	for i := range runs {
		n += len(runs[i].calls)
	}
	return n
}

// run is equal requests, decided together in the order of the batch.
type run struct {
	calls    []*stint.Call
	deadline time.Time // the earliest
	joinable bool
	parts    int // of each
}

// plan turns calls into runs, and runs into script calls.
type plan struct {
	runs []run
	last map[string]int // the last run of each subject
}

var plans = sync.Pool{New: func() any { return &plan{last: map[string]int{}} }}

func newPlan() *plan { return plans.Get().(*plan) }

func (p *plan) free() {
	for i := range p.runs {
		clear(p.runs[i].calls)
		p.runs[i].calls = p.runs[i].calls[:0]
	}
	p.runs = p.runs[:0]
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
// the last one sees, as it does not of a meter.
func canJoin(r *stint.Request) bool {
	if r.Mode != stint.Take || r.ID != "" || len(r.And) > 0 || r.Fit || r.Lease > 0 ||
		r.Cost == 0 || r.Cost > stint.MaxUnits/maxEqual || r.Bans != nil && r.Bans.After > 0 {
		return false
	}
	return uniform(r.Limits) && !slices.ContainsFunc(r.Limits, func(l stint.Limit) bool { return l.HasMeter() })
}

// join adds a call that can join to the run if it is equal to those in it.
func (q *run) join(c *stint.Call) bool {
	a, b := &q.calls[0].Request, &c.Request
	if !q.joinable || a.Subject != b.Subject || a.Scope != b.Scope || a.Cost != b.Cost || a.Shared != b.Shared ||
		(a.Bans == nil) != (b.Bans == nil) || len(q.calls) == maxEqual || q.deadline.IsZero() != c.Deadline.IsZero() ||
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

// chunks divides runs into those of one script call each.
func chunks(runs []run) iter.Seq[[]run] {
	return func(yield func([]run) bool) {
		for len(runs) > 0 {
			n, parts := 1, runs[0].most()
			for n < len(runs) && n < maxRuns {
				if parts += runs[n].most(); parts > maxParts {
					break
				}
				n++
			}
			if !yield(runs[:n]) {
				return
			}
			runs = runs[n:]
		}
	}
}

// most is how many parts the run has at most.
func (q *run) most() int {
	r := &q.calls[0].Request
	if len(r.And) == 0 && uniform(r.Limits) {
		return 1
	}
	return limitsOf(r)
}

// bySubject divides the runs by subject: those of different subjects may be on different
// nodes.
func (p *plan) bySubject() [][]run {
	if len(p.runs) == len(p.last) { // as a rule
		return slices.Collect(slices.Chunk(p.runs, 1))
	}
	var out [][]run
	of := map[string]int{}
	for _, q := range p.runs {
		subject := q.calls[0].Request.Subject
		i, known := of[subject]
		if !known {
			i = len(out)
			of[subject] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], q)
	}
	return out
}

// scriptCall is one call of take.lua.
type scriptCall struct {
	store *Store
	runs  []run
	parts []part // of all runs
	sets  callSets
	call  uint64 // its id; those of the charges follow, or it is that of the only one
	keys  []string
	args  []string
}

// pack makes a script call of runs, whose id those of the charges follow. The error is why it may not be sent.
func (s *Store) pack(runs []run, call uint64) (*scriptCall, error) {
	c := &scriptCall{store: s, runs: runs, parts: make([]part, 0, len(runs)), call: call}
	for i := range runs {
		r, before := &runs[i].calls[0].Request, len(c.parts)
		c.parts = partsOf(c.parts, &r.Claim, r.And)
		runs[i].parts = len(c.parts) - before
	}
	s.sets.fill(c.parts)
	k, err := s.newKeys()
	if err != nil {
		return c, err
	}
	k.buf, k.ends = make([]byte, 0, 64*len(runs)), make([]int, 0, 2*len(runs))
	body := make([]byte, 0, 40*len(c.parts)+80)
	body = le.AppendUint16(body, uint16(len(runs)))
	args := []string{""}
	id, parts := c.firstCharge(), c.parts
	for i := range runs {
		q := &runs[i]
		r, before := &q.calls[0].Request, len(k.ends)
		k.ofRequest(r, parts[:q.parts])
		body = appendRun(body, r, parts[:q.parts], len(k.ends)-before, len(q.calls), s.notAfter(q.deadline), id, &c.sets)
		parts = parts[q.parts:]
		if r.ID != "" {
			args = append(args, k.names.id(r.ID))
		}
		id += uint64(len(q.calls))
	}
	b := appendStart(make([]byte, 0, 256+len(body)), call, s.clock())
	b = c.sets.appendTo(b)
	args[0] = rueidis.BinaryString(append(b, body...))
	c.keys, c.args = k.strings(), args
	return c, nil
}

// firstCharge is the id of the first charge.
func (c *scriptCall) firstCharge() uint64 {
	if len(c.runs) == 1 && len(c.runs[0].calls) == 1 {
		return c.call
	}
	return c.call + 1
}

// answer fills in what the reply says. It returns the calls that the server held to be
// too late, but are not.
func (c *scriptCall) answer(reply string, err error) (late []*stint.Call) {
	if err == nil {
		late, err = c.read(reply)
	}
	if err != nil {
		for i := range c.runs {
			fail(c.runs[i].calls, err)
		}
		return nil
	}
	return late
}

// read is answer for a reply. A part of it that cannot be read spoils all of it: what
// stands where in the rest is not known.
func (c *scriptCall) read(reply string) (late []*stint.Call, err error) {
	in, now, err := opening(reply, c.call)
	if err != nil {
		return nil, err
	}
	in.sets = &c.sets
	id, rest := c.firstCharge(), c.parts
	tooLate := false
	for i := range c.runs {
		calls, parts := c.runs[i].calls, rest[:c.runs[i].parts]
		rest = rest[len(parts):]
		for len(calls) > 0 {
			n, err := in.answerRun(calls, parts, now, id)
			if errors.Is(err, ErrReply) {
				return nil, err
			}
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
	if err := in.end(); err != nil {
		return nil, err
	}
	c.store.heard(now, tooLate)
	return late, nil
}

func fail(calls []*stint.Call, err error) {
	for _, c := range calls {
		c.Decision, c.Err = stint.Decision{}, err
	}
}

// answerRun fills in the next answer of a run, and returns how many calls it is for:
// those that were allowed together, or all.
func (in *reader) answerRun(calls []*stint.Call, parts []part, now int64, id uint64) (int, error) {
	r := &calls[0].Request
	d, n, err := in.decision(r, parts, now, id, len(calls))
	if err != nil {
		fail(calls, err)
		return len(calls), err
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
				own[j].Used -= int64(n-1-i) * r.Cost
			}
		}
	}
	return n, nil
}
