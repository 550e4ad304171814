package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint/driver"
)

// TakeBatch decides calls in their order, in as few script calls as possible: one for 128 subjects
// on a single server, one for each subject on a Cluster. Equal requests are decided as one. See
// [driver.BatchStore].
func (s *Store) TakeBatch(ctx context.Context, batch []*driver.Call) {
	if err := s.await(ctx, "take"); err != nil {
		fail(batch, err)
		return
	}
	p := newPlan()
	defer p.free()
	var group sync.WaitGroup
	defer group.Wait() // before the plan is freed
	for _, c := range batch {
		if len(c.Request.Claims) == 0 {
			c.Err = c.Request.Validate()
			s.done(c)
			continue
		}
		if s.cluster && len(c.Request.Claims) > 1 {
			group.Go(func() { s.takeSplitCall(ctx, c) })
			continue
		}
		p.add(c)
	}
	if s.cluster {
		s.decideByNode(ctx, p.bySubject(), &group)
		return
	}
	f := s.conn.takeOff(ctx, "")
	defer f.land()
	s.decide(ctx, f, p.runs)
}

// decideByNode decides the runs of each subject, with a script call each. What goes to one node is
// sent together: a decision on one of 100,000 subjects takes the process 17 µs, and 36 if each is
// sent by a goroutine of its own. Nodes do not wait for each other, so that a silent one delays
// only the subjects on it.
func (s *Store) decideByNode(ctx context.Context, subjects [][]run, group *sync.WaitGroup) {
	shared, masters := flight{connection: &s.conn}, s.conn.knownMasters()
	byNode := map[string]*nodeCalls{}
	for _, runs := range subjects {
		n := firstChunk(runs)
		c, err := s.pack(runs[:n], s.nextCalls(ids(runs[:n])))
		if err != nil {
			s.finish(ctx, shared, c.runs, c.answer("", err))
			s.decide(ctx, shared, runs[n:])
			continue
		}
		command := takeScripts[c.kind].bySHA(shared, c.keys, c.args)
		owner := ownerOf(masters, command.Slot())
		node := byNode[owner]
		if node == nil {
			node = &nodeCalls{}
			byNode[owner] = node
		}
		node.calls = append(node.calls, c)
		node.rests = append(node.rests, runs[n:])
		node.commands = append(node.commands, command)
	}
	for owner, node := range byNode {
		group.Go(func() {
			f := s.conn.takeOff(ctx, owner)
			defer f.land()
			s.decideOn(ctx, f, node, group)
		})
	}
}

// nodeCalls is script calls for one node, each for a subject of its own.
type nodeCalls struct {
	calls    []*scriptCall
	rests    [][]run // what is then left to decide on the same subjects
	commands rueidis.Commands
}

// decideOn makes the calls to one node. Subjects that take more than that do not hold up the
// others: the rest is asked on the connection that calls share.
func (s *Store) decideOn(ctx context.Context, f flight, node *nodeCalls, group *sync.WaitGroup) {
	shared := flight{connection: f.connection}
	for i, result := range f.DoMulti(ctx, node.commands) {
		c, rest := node.calls[i], node.rests[i]
		switch reply, err := result.ToString(); {
		case err == nil && len(rest) == 0:
			s.finish(ctx, shared, c.runs, c.answer(reply, nil))
		case errors.Is(err, rueidis.ErrNoSlot), errors.Is(err, errStale): // it was not sent
			group.Go(func() { s.decide(ctx, shared, c.runs); s.decide(ctx, shared, rest) })
		default:
			group.Go(func() {
				reply, err := text(takeScripts[c.kind].elseWhole(ctx, shared, result, c.keys, c.args))
				s.finish(ctx, shared, c.runs, c.answer(reply, err))
				s.decide(ctx, shared, rest)
			})
		}
	}
}

// takeSplitCall decides a call on several subjects, within the time of its own caller.
func (s *Store) takeSplitCall(ctx context.Context, c *driver.Call) {
	if !c.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.Deadline)
		defer cancel()
	}
	c.Decision, c.Err = s.takeSplit(ctx, &c.Request)
	s.done(c)
}

// decide answers the calls of the runs, one script call after the other: a subject may be in
// several of them, and a call that is sent again must not come after the next.
func (s *Store) decide(ctx context.Context, by flight, runs []run) {
	for len(runs) > 0 {
		n := firstChunk(runs)
		s.finish(ctx, by, runs[:n], s.sendKinds(ctx, by, runs[:n]))
		runs = runs[n:]
	}
}

// finish ends the calls of a script call that was answered. Those that are late go once more.
func (s *Store) finish(ctx context.Context, by caller, runs []run, late []*driver.Call) {
	if len(late) > 0 && ctx.Err() == nil {
		s.sendAgain(ctx, by, late)
	}
	for i := range runs {
		for _, c := range runs[i].calls {
			s.done(c)
		}
	}
}

// sendAgain sends calls once more that have time left: the server's clock was set, and its reply
// had its new time.
func (s *Store) sendAgain(ctx context.Context, by caller, late []*driver.Call) {
	p := newPlan()
	defer p.free()
	for _, c := range late {
		p.add(c)
	}
	for runs := p.runs; len(runs) > 0; {
		n := firstChunk(runs)
		s.send(ctx, by, runs[:n], s.nextCalls(ids(runs[:n])))
		runs = runs[n:]
	}
}

// done returns an answered call to its caller at once if this is a Cluster. A single server usually
// answers all calls together.
func (s *Store) done(c *driver.Call) {
	if c.Err == nil {
		s.names.Load().note(&c.Request, &c.Decision)
	}
	c.Err = s.wrap("take", c.Err)
	if s.cluster && c.Done != nil {
		c.Done()
	}
}

// byKind divides runs by kind, so that each is decided by a script with no more than it needs. Runs
// of one subject stay in order: if it has several kinds, nothing is divided.
func byKind(runs []run) [][]run {
	kind, same := kindOf(&runs[0].calls[0].Request), true
	for i := range runs {
		same = same && kindOf(&runs[i].calls[0].Request) == kind
	}
	if same {
		return [][]run{runs}
	}
	var groups [len(takeScripts)][]run
	of := map[string]int{}
	for i := range runs {
		r := &runs[i].calls[0].Request
		kind := kindOf(r)
		for j := range r.Claims {
			if other, known := of[r.Claims[j].Subject]; known && other != kind {
				return [][]run{runs}
			}
			of[r.Claims[j].Subject] = kind
		}
		groups[kind] = append(groups[kind], runs[i])
	}
	return slices.DeleteFunc(groups[:], func(g []run) bool { return len(g) == 0 })
}

// sendKinds makes one script call for each kind among the runs, in one flight. It returns the calls
// that the server refused as too late though they have time left.
func (s *Store) sendKinds(ctx context.Context, by flight, runs []run) (late []*driver.Call) {
	groups := byKind(runs)
	if len(groups) == 1 {
		return s.send(ctx, by, runs, s.nextCalls(ids(runs)))
	}
	var calls []*scriptCall
	var commands rueidis.Commands
	for _, group := range groups {
		c, err := s.pack(group, s.nextCalls(ids(group)))
		if err != nil {
			late = append(late, c.answer("", err)...)
			continue
		}
		calls = append(calls, c)
		commands = append(commands, takeScripts[c.kind].bySHA(by, c.keys, c.args))
	}
	for i, result := range by.DoMulti(ctx, commands) {
		c := calls[i]
		late = append(late, c.answer(text(takeScripts[c.kind].elseWhole(ctx, by, result, c.keys, c.args)))...)
	}
	return late
}

// send makes one script call, under the first of as many ids as it needs. It returns the calls that
// the server refused as too late though they have time left.
func (s *Store) send(ctx context.Context, by caller, runs []run, call uint64) (late []*driver.Call) {
	c, err := s.pack(runs, call)
	if err != nil {
		return c.answer("", err)
	}
	reply, err := takeScripts[c.kind].run(ctx, by, c.keys, c.args)
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
