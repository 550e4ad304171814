package redisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/logsample"
)

// undo is an internal amendment that gives back a charge that the store itself has just made. See
// lua/amend.lua. It is safe to repeat after a failure, because it has no effect if it may have been
// applied before.
const undo stint.AmendmentKind = 100

const (
	// maxGiveBacks is the maximum number of charges that wait to be given back.
	maxGiveBacks = 10_000
	// giveBackTime is the maximum duration of one attempt to give a charge back. It is also the
	// time for which the store waits for the answer to a charge after the caller's deadline.
	giveBackTime = time.Second
	// giveBackLife is the time for which the store keeps trying to give a charge back.
	giveBackLife = 30 * time.Second
	// giveBackPause is the pause after the first attempt. It doubles after each later attempt.
	giveBackPause = 100 * time.Millisecond
	// drainTime is the maximum time for which Close waits for charges to be given back.
	drainTime = time.Second
)

// giveBacks counts the charges to be given back. A charge to a subject is given back if it was for
// a request on several subjects, and the request failed, was a repeat, or was denied because of
// another subject.
type giveBacks struct {
	waiting atomic.Int64 // charges to give back, including those of calls whose answers are late
	dropped atomic.Int64 // charges not given back, which count until they leave their window
	sampler logsample.Sampler
}

// giveBack gives a charge back in the background, and retries if that fails.
func (s *Store) giveBack(c stint.Charge) {
	if c.Data().ID == 0 {
		return
	}
	work := func() {
		defer s.backs.waiting.Add(-1)
		begin := time.Now()
		for pause := giveBackPause; ; pause *= 2 {
			ctx, cancel := context.WithTimeout(s.conn.life, giveBackTime)
			_, err := s.amendOne(ctx, &c, stint.Amendment{Kind: undo})
			cancel()
			if s.wrap("amend", err) == nil {
				return
			}
			if time.Since(begin)+pause > giveBackLife || s.conn.life.Err() != nil {
				s.dropGiveBack(err)
				return
			}
			select {
			case <-time.After(pause):
			case <-s.conn.life.Done():
			}
		}
	}
	if s.backs.waiting.Add(1) > maxGiveBacks || !s.conn.spawn(work) {
		s.backs.waiting.Add(-1)
		s.dropGiveBack(nil)
	}
}

// dropGiveBack counts and logs a charge that cannot be given back.
func (s *Store) dropGiveBack(cause error) {
	dropped := s.backs.dropped.Add(1)
	if _, ok := s.backs.sampler.Allow(1, 10*time.Second); ok {
		s.logger.Warn("stint: charges for requests that were denied elsewhere on the Cluster "+
			"cannot be given back; they count until they leave their windows", "charges", dropped, "cause", cause)
	}
}

// drainGiveBacks waits until no charge is waiting to be given back, but not longer than drainTime.
func (s *Store) drainGiveBacks() {
	for end := time.Now().Add(drainTime); s.backs.waiting.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}
