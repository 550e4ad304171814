package resilience

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// sender sends debts to the store, and amendments that no caller waits for, in batches. It repeats
// each debt until the debt is charged or has left its windows, and each amendment until it is made
// or its time runs out; see [sender.add].
type sender struct {
	stack *Stack

	charging    atomic.Bool // whether the goroutine that charges debts is running
	nextDropped int64       // when drops may be logged again; used only by the goroutine that charges debts

	mu      sync.Mutex
	waiting []*job
	working bool // whether the goroutine that does the jobs is running
	dropped atomic.Int64
}

// job is an amendment of a charge, or of a part of it, that is still to be made.
type job struct {
	driver.AmendCall
	done        func(stint.Amended) // called when the store has made the amendment; may be nil
	promised    bool                // whether a caller was promised the amendment; then maxJobs does not apply
	sent        int64               // when the store was first asked
	from, until time.Time
}

// newJob returns a job for an amendment that a caller was promised.
func newJob(c stint.Charge, a stint.Amendment, done func(stint.Amended)) *job {
	return &job{AmendCall: driver.AmendCall{Charge: c, Amendment: a}, done: done, promised: true}
}

const (
	// sendTime is the maximum duration of a batch, and sendMost is the maximum number of debts in a
	// batch.
	sendTime = time.Second
	sendMost = 128
	// sendEvery is the time between batches, unless there is more to send. sendPause is the pause
	// after a failure, or if the store is slow. A request charges the debts of its subjects at
	// once, without waiting for a batch.
	sendEvery = 100 * time.Millisecond
	sendPause = time.Second

	maxJobs = 65_536
	// A job is repeated for at least jobTime and at most longestJob, or longer if it settles a
	// hold.
	jobTime    = time.Minute
	longestJob = time.Hour
)

// start starts charging debts if there are any and no goroutine charges them yet.
func (s *sender) start() {
	if s.stack.ledger.owing.Load() > 0 && !s.charging.Load() && s.charging.CompareAndSwap(false, true) {
		s.stack.run(s.charge)
	}
}

// charge charges debts, one batch at a time, while there are any.
func (s *sender) charge() {
	t := s.stack
	for pause := sendEvery; t.ledger.owing.Load() > 0; {
		if sleep(t.life, jitter(pause)); t.life.Err() != nil {
			break
		}
		begin := time.Now()
		n, ok := s.send(t.life)
		switch {
		case !ok || time.Since(begin) > t.config.Failure.Budget:
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
		s.start() // new debts may have come in the meantime
	}
}

// send sends a batch of debts. n is the number of debts that it sent. ok reports whether the store
// charged any of them, or there were none to send.
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
	// The deadline is short, because the age of a debt is measured when it is sent.
	deadline, number := time.Now().Add(sendTime/4), l.nextCall()
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

// close logs the remaining jobs and debts as lost. It is called when the sender's goroutines have
// ended.
func (s *sender) close() {
	s.mu.Lock()
	s.dropped.Add(int64(len(s.waiting)) + s.stack.ledger.owing.Load())
	s.mu.Unlock()
	s.nextDropped = 0
	s.logDropped()
}

// logDropped logs how many charges, settlements and releases were dropped and will thus never reach
// the store. It logs only if there are any, and at most once per logEvery.
func (s *sender) logDropped() {
	l := s.stack.ledger
	if n := l.dropped.Load() + s.dropped.Load(); n > 0 && l.now() >= s.nextDropped {
		s.nextDropped = l.now() + int64(logEvery)
		s.stack.config.Logger.Warn("stint: some charges, settlements or releases will never reach the store",
			"dropped", l.dropped.Swap(0)+s.dropped.Swap(0))
	}
}

// refund gives back a charge that the store made but that no caller will use. It waits a moment, so
// that the answers of the same call are counted first.
func (s *sender) refund(c stint.Charge, heard bool) {
	j := &job{AmendCall: driver.AmendCall{Charge: c, Amendment: stint.Amendment{Kind: stint.AmendSettle}}}
	j.done = func(stint.Amended) { s.stack.ledger.returned(&c, heard, j.sent) }
	s.add(j, time.Millisecond)
}

// finish adds jobs to be done at once.
func (s *sender) finish(due []*job) {
	for _, j := range due {
		s.add(j, 0)
	}
}

// may reports whether another job can be queued.
func (s *sender) may() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) < maxJobs && s.stack.life.Err() == nil
}

// add queues a job, to be done in the background after the given delay.
func (s *sender) add(j *job, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) >= maxJobs && !j.promised || s.stack.life.Err() != nil {
		s.dropped.Add(1)
		return
	}
	longest := max(jobTime, 2*j.Charge.Data().Hold)
	for _, l := range contract.Limits(j.Charge.Claims()) {
		longest = max(longest, min(l.Window, longestJob))
	}
	j.from = time.Now().Add(after)
	j.until = j.from.Add(longest)
	s.waiting = append(s.waiting, j)
	if !s.working {
		s.working = true
		s.stack.run(s.work)
	}
}

// work does jobs until none are left. It waits while the store is unavailable.
func (s *sender) work() {
	for t := s.stack; ; {
		s.mu.Lock()
		if s.working = len(s.waiting) > 0 && t.life.Err() == nil; !s.working {
			s.mu.Unlock()
			return
		}
		var due []*job
		refused, now := t.store.refused(opAmend) != nil, time.Now()
		s.waiting = slices.DeleteFunc(s.waiting, func(j *job) bool {
			switch {
			case refused && now.After(j.until):
				s.dropped.Add(1)
			case refused || len(due) == maxBatch || now.Before(j.from):
				return false
			default:
				due = append(due, j)
			}
			return true
		})
		pause := max(5*time.Millisecond, time.Duration(len(s.waiting))*time.Microsecond) // scanning the jobs takes time
		s.mu.Unlock()
		if len(due) == 0 {
			sleep(t.life, pause)
			continue
		}
		s.try(due)
	}
}

// try makes the amendments of jobs. Jobs that fail are queued again until their time runs out.
func (s *sender) try(jobs []*job) {
	t := s.stack
	ctx, cancel := context.WithTimeout(t.life, sendTime)
	defer cancel()
	batch := make([]*driver.AmendCall, len(jobs))
	for i, j := range jobs {
		j.sent = cmp.Or(j.sent, t.ledger.now())
		batch[i] = &j.AmendCall
	}
	t.store.amend(ctx, batch, new(attempt))
	now := time.Now()
	for _, j := range jobs {
		_, invalid := errors.AsType[*stint.InvalidError](j.Err)
		switch {
		case invalid: // the amendment would always fail
		case j.Err != nil && now.After(j.until):
			s.dropped.Add(1)
		case j.Err != nil:
			j.from = now.Add(jitter(sendEvery))
			s.mu.Lock()
			s.waiting = append(s.waiting, j)
			s.mu.Unlock()
		case j.done != nil: // if nothing changed, an earlier attempt has made the amendment
			j.done(j.Amended)
		}
	}
}

// drain sends debts and waits for jobs until none are left or the context ends.
func (s *sender) drain(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		busy := s.working
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
