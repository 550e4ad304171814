package resilience

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
)

// sender brings to the store what it has missed: debts, in batches, and amendments and commands
// that no caller waits for, a few at a time. All of it is repeated until it is done or does not
// count any more.
type sender struct {
	stack *Stack

	charging    atomic.Bool // the goroutine that does so runs
	nextDropped int64       // when dropped ones may be logged again; of that goroutine

	mu      sync.Mutex
	waiting []job
	running int
	dropped atomic.Int64
}

// job is a call that reports whether to make it again.
type job struct {
	call        func(context.Context) (again bool)
	from, until time.Time
}

const (
	// sendTime is how long a batch of debts or a job may take, and sendMost how large a batch is.
	sendTime = time.Second
	sendMost = 128
	// sendEvery is how often a batch is sent, unless there is more, and sendPause how long to wait
	// after a failure or with a slow store. Requests for a subject carry what it owes before.
	sendEvery = 100 * time.Millisecond
	sendPause = time.Second

	maxJobs    = 65_536
	maxRunning = 8
	// jobTime is for how long a job is repeated at least.
	jobTime = time.Minute
)

// start sees to it that debts are charged.
func (s *sender) start() {
	if s.stack.ledger.owing.Load() > 0 && !s.charging.Load() && s.charging.CompareAndSwap(false, true) {
		s.stack.run(s.charge)
	}
}

// charge runs while something is owed, and charges it in one batch at a time.
func (s *sender) charge() {
	t := s.stack
	for pause := sendEvery; t.ledger.owing.Load() > 0; {
		if sleep(t.life, jitter(pause)); t.life.Err() != nil {
			break
		}
		begin := time.Now()
		n, ok := s.send(t.life)
		switch {
		case !ok || time.Since(begin) > t.config.budget():
			pause = sendPause
		case n >= sendMost:
			pause = sendEvery / 10
		default:
			pause = sendEvery
		}
		s.logDropped()
	}
	s.charging.Store(false)
	if t.life.Err() == nil {
		s.start() // something may be owed since
	}
}

// send charges a batch. It returns how much was sent, and whether any of it was charged.
func (s *sender) send(ctx context.Context) (n int, ok bool) {
	l := s.stack.ledger
	if s.stack.store.refused(opTake) != nil {
		return 0, false
	}
	calls := l.collectSome()
	if len(calls) == 0 {
		return 0, true
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	// Soon: a debt is charged as of its age at the sending.
	deadline, number := time.Now().Add(sendTime/4), l.calls.Add(1)
	batch := make([]*driver.Call, len(calls))
	for i, o := range calls {
		o.Deadline, o.number = deadline, number
		batch[i] = &o.Call
	}
	s.stack.store.take(ctx, batch, new(attempt))
	for _, o := range calls {
		ok = ok || o.Err == nil
		o.end()
	}
	return len(calls), ok
}

// close logs that what is left is lost. Its goroutines have ended.
func (s *sender) close() {
	s.dropped.Add(int64(len(s.waiting)) + s.stack.ledger.owing.Load())
	s.nextDropped = 0
	s.logDropped()
}

// logDropped logs that something will not be charged.
func (s *sender) logDropped() {
	l := s.stack.ledger
	if n := l.dropped.Load() + s.dropped.Load(); n > 0 && l.now() >= s.nextDropped {
		s.nextDropped = l.now() + int64(logEvery)
		s.stack.config.Logger.Warn("stint: not everything that was admitted without the store is charged to it or given back afterwards",
			"dropped", l.dropped.Swap(0)+s.dropped.Swap(0))
	}
}

// refund gives a charge back to the store that nobody was granted: not before the answers of the
// same call are counted.
func (s *sender) refund(c stint.Charge, late bool) {
	l, sent := s.stack.ledger, int64(0)
	first := func() { sent = cmp.Or(sent, l.now()) }
	s.amend(c, stint.Amendment{Kind: stint.AmendSettle}, time.Millisecond, first,
		func(stint.Amended) { l.returned(&c, late, sent) })
}

// finish makes amendments, and gives units back.
func (s *sender) finish(due repayment) {
	for _, a := range due.amendments {
		s.amend(a.charge, a.Amendment, 0, nil, a.done)
	}
	for _, b := range due.backs {
		s.giveBack(b)
	}
}

// may reports whether there is room for another job.
func (s *sender) may() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) < maxJobs && s.stack.life.Err() == nil
}

// amend amends a charge of the store after some time. However often it is repeated, it applies
// once. One function is called before each attempt, the other when it is done; they may be nil.
func (s *sender) amend(c stint.Charge, a stint.Amendment, after time.Duration, before func(),
	amended func(stint.Amended)) {
	t := s.stack
	longest := jobTime
	for i := range c.Claims() {
		for k := range c.Claims()[i].Limits {
			longest = max(longest, min(c.Claims()[i].Limits[k].Window, lateRaise))
		}
	}
	s.add(after, longest, func(ctx context.Context) (again bool) {
		if before != nil {
			before()
		}
		done, err := t.amendStore(ctx, c, a)
		if err == nil && amended != nil { // if it has not changed, an attempt before has
			amended(done)
		}
		_, failed := errors.AsType[*stint.StoreError](err)
		return failed
	})
}

// giveBack gives units of a limit back to the store that were granted at an instant, unless they
// have left their window. It is repeated only if the store was surely not asked: else they might be
// given back twice.
func (s *sender) giveBack(b backUnits) {
	t := s.stack
	s.add(0, jobTime, func(ctx context.Context) (again bool) {
		l := t.ledger
		c := stint.Command{Kind: stint.CommandGiveBack, Subject: b.claim.Subject, Scope: b.claim.Scope,
			Limits: b.claim.Limits, Units: stillIn(&b.claim.Limits[0], b.claim.Cost, l.wall(b.at), l.wall(l.now()))}
		if c.Units == 0 {
			return false
		}
		if b.generation != 0 {
			look := stint.Request{Mode: stint.ModePeek, Failure: &stint.FailurePolicy{Budget: amendTime},
				Claims: []stint.Claim{{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits}}}
			d, err := t.askStore(ctx, &look)
			if err != nil {
				return true
			}
			if d.Charge.Data().Generation != b.generation { // it was reset since
				return false
			}
		}
		return errkind.Of(t.commandStore(ctx, c)) == errkind.Refused
	})
}

// add has a call made in the background, after some time.
func (s *sender) add(after, life time.Duration, call func(context.Context) (again bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) >= maxJobs || s.stack.life.Err() != nil {
		s.dropped.Add(1)
		return
	}
	from := time.Now().Add(after)
	s.waiting = append(s.waiting, job{call, from, from.Add(life)})
	if s.running < maxRunning {
		s.running++
		s.stack.run(func() { s.work(s.stack.life) })
	}
}

// work makes calls for as long as there are any. One that is to be made again goes to the end.
func (s *sender) work(ctx context.Context) {
	for {
		s.mu.Lock()
		if len(s.waiting) == 0 || ctx.Err() != nil {
			s.running--
			s.mu.Unlock()
			return
		}
		next := s.waiting[0]
		s.waiting[0] = job{}
		s.waiting = s.waiting[1:]
		s.mu.Unlock()
		pause := time.Millisecond // it is not time yet
		if !time.Now().Before(next.from) {
			if !next.call(ctx) {
				continue
			}
			if time.Now().After(next.until) {
				s.dropped.Add(1)
				continue
			}
			pause = jitter(sendEvery)
		}
		s.mu.Lock()
		s.waiting = append(s.waiting, next)
		s.mu.Unlock()
		sleep(ctx, pause)
	}
}

// drain sends until nothing is left, or the context ends.
func (s *sender) drain(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		busy := s.running > 0
		s.mu.Unlock()
		owing := s.stack.ledger.owing.Load() > 0
		if !busy && !owing {
			return
		}
		if n, ok := 0, false; owing {
			if n, ok = s.send(ctx); n > 0 && ok {
				continue
			}
		}
		sleep(ctx, time.Millisecond)
	}
}
