package redisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/logsample"
)

// undo is an amendment of the store's own, see lua/amend.lua: it gives back what the store itself
// charged a moment ago. It may be sent again after a failure: it does nothing if it may have been
// done.
const undo stint.AmendmentKind = 100

const (
	// maxGiveBacks is how many charges wait to be given back.
	maxGiveBacks = 10_000
	// giveBackTime is how long an attempt to give back may take, and how long after its caller's
	// time a charge is waited for.
	giveBackTime = time.Second
	// giveBackLife is for how long it is attempted.
	giveBackLife = 30 * time.Second
	// giveBackPause is how long to wait after the first attempt; then twice as long, and so on.
	giveBackPause = 100 * time.Millisecond
	// drainTime is how long Close waits for what is to be given back.
	drainTime = time.Second
)

// giveBacks counts charges for requests on several subjects that were not allowed in the end.
type giveBacks struct {
	waiting atomic.Int64 // to be given back
	dropped atomic.Int64 // which stay until they leave their window
	sampler logsample.Sampler
}

// giveBack gives a charge back in the background, as often as it takes.
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

// dropGiveBack counts a charge that is not given back.
func (s *Store) dropGiveBack(cause error) {
	dropped := s.backs.dropped.Add(1)
	if _, ok := s.backs.sampler.Allow(1, 10*time.Second); ok {
		s.logger.Warn("stint: what was charged for requests that were denied elsewhere on the Cluster "+
			"cannot be given back; it counts until it leaves its window", "charges", dropped, "cause", cause)
	}
}

// drainGiveBacks waits until what is waiting is given back, for a second at most.
func (s *Store) drainGiveBacks() {
	for end := time.Now().Add(drainTime); s.backs.waiting.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}
