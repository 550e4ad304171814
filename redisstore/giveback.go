package redisstore

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/logsample"
)

// Amendments of the store's own, see lua/amend.lua.
const (
	// undo gives back what the store itself charged a moment ago. It may be sent again after a
	// failure: it does nothing if it may have been done.
	undo stint.AmendmentKind = 100
)

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

// giveBacks gives back, in the background, what was charged for requests on several subjects that
// were not allowed in the end.
type giveBacks struct {
	store   *Store
	logger  *slog.Logger
	dropped atomic.Int64 // charges that stay until they leave their window
	sampler logsample.Sampler

	life context.Context
	end  context.CancelFunc

	mu      sync.Mutex
	waiting int
	closed  bool
	work    sync.WaitGroup
}

func newGiveBacks(s *Store, logger *slog.Logger) *giveBacks {
	b := &giveBacks{store: s, logger: logger}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// start runs what deals with n charges, unless there are too many.
func (b *giveBacks) start(n int, what func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.waiting+n > maxGiveBacks {
		return false
	}
	b.waiting += n
	b.work.Go(func() {
		defer func() {
			b.mu.Lock()
			b.waiting -= n
			b.mu.Unlock()
		}()
		what()
	})
	return true
}

// add has a charge given back.
func (b *giveBacks) add(c stint.Charge) {
	if !b.start(1, func() { b.giveBack(&c) }) {
		b.drop(1, nil)
	}
}

// follow waits for answers whose caller has left, and gives back what they charged.
func (b *giveBacks) follow(answers <-chan answer, n int, cancel context.CancelFunc) {
	ok := b.start(n, func() {
		defer cancel()
		for range n {
			if a := <-answers; a.err == nil && a.decision.Charge.Data().ID != 0 {
				b.giveBack(&a.decision.Charge)
			}
		}
	})
	if !ok {
		cancel()
		b.drop(n, nil)
	}
}

// giveBack gives a charge back, as often as it takes.
func (b *giveBacks) giveBack(c *stint.Charge) {
	begin := time.Now()
	for pause := giveBackPause; ; pause *= 2 {
		ctx, cancel := context.WithTimeout(b.life, giveBackTime)
		_, err := b.store.amendOne(ctx, c, stint.Amendment{Kind: undo})
		cancel()
		if b.store.wrap("amend", err) == nil {
			return
		}
		if time.Since(begin)+pause > giveBackLife || b.life.Err() != nil {
			b.drop(1, err)
			return
		}
		select {
		case <-time.After(pause):
		case <-b.life.Done():
		}
	}
}

// drop counts charges that are not given back.
func (b *giveBacks) drop(n int, cause error) {
	b.dropped.Add(int64(n))
	if _, ok := b.sampler.Allow(1, 10*time.Second); ok {
		b.logger.Warn("stint: what was charged for requests that were denied elsewhere on the Cluster "+
			"cannot be given back; it counts until it leaves its window",
			"charges", b.dropped.Load(), "cause", cause)
	}
}

// close gives back what is waiting, for a second at most.
func (b *giveBacks) close() {
	for end := time.Now().Add(drainTime); b.left() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.end()
	b.work.Wait()
}

func (b *giveBacks) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}
