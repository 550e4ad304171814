package redisstore

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint/driver"
)

// TakeBatch decides a batch in as few script calls as possible. It decides equal requests together.
// On a single server, one script call decides up to 128 groups of equal requests, in order. On a
// Cluster, all requests with a single claim, on the same subject, are decided in order, usually by
// one script call. Requests with several claims are decided in parallel with all others. See
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
		if n := len(c.Request.Claims); n == 0 || n > 1 && s.cluster {
			group.Go(func() { s.takeCall(ctx, c) })
		} else {
			p.add(c)
		}
	}
	if s.cluster {
		s.decideByNode(ctx, p.bySubject(), &group)
		return
	}
	f := s.conn.takeOff(ctx, "")
	defer f.land()
	s.decide(ctx, f, p.runs)
}

// decide decides the runs with one script call after another, not in parallel: two script calls may
// have the same subject, and if the first must be repeated, it must still run before the second.
func (s *Store) decide(ctx context.Context, f flight, runs []run) {
	for len(runs) > 0 {
		n := firstChunk(runs)
		s.fly(ctx, f, s.addCall(nil, runs[:n], nil), func(f func()) { f() })
		runs = runs[n:]
	}
}

// decideByNode decides the runs of each subject with one script call, or with several if there are
// too many runs for one. It sends all calls for the same node together: with 100,000 subjects, this
// costs the process 17 µs per decision, and a goroutine for each call would cost 36 µs. The calls
// to different nodes do not wait for each other, so a silent node delays only its own subjects.
func (s *Store) decideByNode(ctx context.Context, subjects [][]run, group *sync.WaitGroup) {
	var calls []*scriptCall
	for _, runs := range subjects {
		n := firstChunk(runs)
		calls = s.addCall(calls, runs[:n], runs[n:])
	}
	masters, byNode := s.conn.knownMasters(), map[string][]*scriptCall{}
	for _, c := range calls {
		owner := ownerOf(masters, c.command.Slot())
		byNode[owner] = append(byNode[owner], c)
	}
	for owner, calls := range byNode {
		group.Go(func() {
			f := s.conn.takeOff(ctx, owner)
			defer f.land()
			s.fly(ctx, f, calls, group.Go)
		})
	}
}

// addCall appends the script call that decides runs. The parameter rest has the other runs of the
// same subject, which wait for that call. If the store may not send calls (see Store.refused),
// addCall fails all of these runs.
func (s *Store) addCall(calls []*scriptCall, runs, rest []run) []*scriptCall {
	c, err := s.encodeTake(runs, s.idsFor(runs))
	if err != nil {
		for _, runs := range [...][]run{runs, rest} {
			failRuns(runs, err)
			s.finish(runs)
		}
		return calls
	}
	c.rest, c.command = rest, c.script.bySHA(&s.conn, c.keys, c.args)
	return append(calls, c)
}

// idsFor returns an id for a script call that decides runs. It also reserves the ids after it, one
// for each charge.
func (s *Store) idsFor(runs []run) uint64 {
	n := 1
	for i := range runs {
		n += len(runs[i].calls)
	}
	return s.nextCalls(n)
}

// fly makes script calls in one flight. For each answer that leaves work to do, it calls the
// parameter later with a function that does that work.
func (s *Store) fly(ctx context.Context, f flight, calls []*scriptCall, later func(func())) {
	if len(calls) == 1 { // the usual case; faster
		s.conclude(ctx, calls[0], f.Do(ctx, calls[0].command), later)
		return
	}
	commands := make(rueidis.Commands, len(calls))
	for i, c := range calls {
		commands[i] = c.command
	}
	for i, answer := range f.DoMulti(ctx, commands) {
		s.conclude(ctx, calls[i], answer, later)
	}
}

// conclude completes the calls that a script call answers. If that may require another script call,
// it instead calls the parameter later with a function that completes them.
func (s *Store) conclude(ctx context.Context, c *scriptCall, answer rueidis.RedisResult, later func(func())) {
	reply, err := text(answer)
	if err == nil && len(c.rest) == 0 {
		s.end(ctx, c, reply, nil)
		return
	}
	later(func() { s.concludeLater(ctx, c, reply, err) })
}

// concludeLater completes the calls of a script call. It first repeats the script call on the
// shared connection if the answer proves that nothing ran. It then decides the remaining runs of
// the same subject.
func (s *Store) concludeLater(ctx context.Context, c *scriptCall, reply string, err error) {
	shared := flight{connection: &s.conn}
	if refused, ok := rueidis.IsRedisErr(err); ok && refused.IsNoScript() ||
		errors.Is(err, errStale) || errors.Is(err, rueidis.ErrNoSlot) {
		reply, err = c.script.run(ctx, shared, c.keys, c.args)
	}
	s.end(ctx, c, reply, err)
	s.decide(ctx, shared, c.rest)
}

// end completes the calls that a script call answers. If the server refused some of them because
// its clock had been set, end sends these again: the reply contains the new time.
func (s *Store) end(ctx context.Context, c *scriptCall, reply string, err error) {
	if late := c.answer(reply, err); len(late) > 0 {
		s.send(ctx, flight{connection: &s.conn}, late, s.idsFor(late))
	}
	s.finish(c.runs)
}

// send makes one script call with the given id. The ids of its charges follow that id. It returns
// the runs that the server refused because its clock had been set.
func (s *Store) send(ctx context.Context, by caller, runs []run, id uint64) (late []run) {
	c, err := s.encodeTake(runs, id)
	if err != nil {
		failRuns(runs, err)
		return nil
	}
	return c.answer(c.script.run(ctx, by, c.keys, c.args))
}

func (s *Store) finish(runs []run) {
	for i := range runs {
		for _, c := range runs[i].calls {
			s.done(c)
		}
	}
}

// done completes an answered call. On a Cluster it also calls c.Done, so that the caller need not
// wait for the other calls of the batch. A single server usually answers all calls together.
func (s *Store) done(c *driver.Call) {
	if c.Err == nil {
		s.names.Load().note(&c.Request, &c.Decision)
	}
	c.Err = s.wrap("take", c.Err)
	if s.cluster && c.Done != nil {
		c.Done()
	}
}
