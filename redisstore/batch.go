package redisstore

import (
	"context"
	"sync"

	"github.com/stint-limiter/stint/driver"
)

// TakeBatch decides calls in their order, in as few script calls as possible: one for 128 subjects
// on a single server, one for each subject on a Cluster. Equal requests are decided as one. See
// [driver.BatchStore].
func (s *Store) TakeBatch(ctx context.Context, batch []*driver.Call) {
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
	// Each subject on its own: a silent node delays only the subjects on it. The client sends
	// together what goes to one node.
	subjects := p.bySubject()
	for i, runs := range subjects {
		if i == len(subjects)-1 {
			s.decide(ctx, runs)
		} else {
			group.Go(func() { s.decide(ctx, runs) })
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
func (s *Store) decide(ctx context.Context, runs []run) {
	for chunk := range chunks(runs) {
		if late := s.send(ctx, chunk, s.nextCalls(ids(chunk))); len(late) > 0 && ctx.Err() == nil {
			s.sendAgain(ctx, late)
		}
		for i := range chunk {
			for _, c := range chunk[i].calls {
				s.done(c)
			}
		}
	}
}

// sendAgain sends calls once more that have time left: the server's clock was set, and its reply
// had its new time.
func (s *Store) sendAgain(ctx context.Context, late []*driver.Call) {
	p := newPlan()
	defer p.free()
	for _, c := range late {
		p.add(c)
	}
	for chunk := range chunks(p.runs) {
		s.send(ctx, chunk, s.nextCalls(ids(chunk)))
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

// send makes one script call, under the first of as many ids as it needs. It returns the calls that
// the server refused as too late though they have time left.
func (s *Store) send(ctx context.Context, runs []run, call uint64) (late []*driver.Call) {
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
