package resilience

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

// Config sets up a [Stack]. The zero Config is the recommended one.
type Config struct {
	// Failure is for requests that have no policy of their own. The default is to decide
	// locally when the store has not done so within DefaultBudget.
	Failure stint.FailurePolicy
	// Instances is how many processes share the store, for want of a store that
	// counts them. See [FallbackConfig].
	Instances int
	// LocalBytes is how much memory deciding without the store takes; see [FallbackConfig].
	LocalBytes int64
	// Breaker says when to stop asking, and MaxWaiting how many callers may wait.
	Breaker    BreakerConfig
	MaxWaiting int
	// Denials is how many denials are remembered; see [DenyCacheConfig].
	Denials int
	// Leases is how many subjects may be leased at once; see [LeasesConfig].
	Leases int
	// Observer is told what happens, if it is not nil.
	Observer Observer
	// Logger is slog.Default() unless set.
	Logger *slog.Logger
}

// Stack is a [stint.Store] that is fast and calm: all the parts of this package over one
// store, in the order that works.
type Stack struct {
	top      stint.Store
	observer Observer

	cache    *DenyCache
	leases   *Leases
	fallback *Fallback
	batching *Batching
	breaker  *Breaker

	stop func()
	work sync.WaitGroup
}

var _ stint.Store = (*Stack)(nil)

// New puts a stack on a store:
//
//	redis, err := redisstore.Open(ctx, "redis://localhost:6379/0")
//	...
//	store, err := resilience.New(redis, resilience.Config{})
//	...
//	defer store.Close() // before the one of redis
//	lim, err := stint.New(store, stint.PerMinute(100))
func New(store stint.BatchStore, c Config) (*Stack, error) {
	if store == nil {
		return nil, &stint.InvalidError{Err: errors.New("no store")}
	}
	if err := c.Failure.Validate(); err != nil {
		return nil, &stint.InvalidError{Err: err}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Breaker.Observer, c.Breaker.Logger = c.Observer, c.Logger
	roster, _ := store.(Roster)

	s := &Stack{observer: c.Observer}
	s.breaker = NewBreaker(store, c.Breaker)
	s.batching = NewBatching(s.breaker, BatchingConfig{MaxWaiting: c.MaxWaiting, Budget: c.Failure.Budget})
	var err error
	s.fallback, err = NewFallback(NewDeadline(s.batching, c.Failure.Budget), FallbackConfig{
		Policy: c.Failure, Instances: c.Instances, Roster: roster, LocalBytes: c.LocalBytes,
		Observer: c.Observer, Logger: c.Logger, batch: s.breaker,
	})
	if err != nil {
		return nil, err
	}
	s.leases = NewLeases(s.fallback, LeasesConfig{MaxLeases: c.Leases, Observer: c.Observer, Logger: c.Logger})
	s.cache = NewDenyCache(s.leases, DenyCacheConfig{Entries: c.Denials, Observer: c.Observer})
	s.top = s.cache

	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	if announcer, ok := store.(Announcer); ok {
		s.work.Go(func() { s.listen(ctx, announcer, c.Logger) })
	}
	return s, nil
}

// listen forgets what others say is no longer so. While it cannot listen, denials are
// remembered for a second at the longest, and leases until their end.
func (s *Stack) listen(ctx context.Context, announcer Announcer, logger *slog.Logger) {
	told := false
	for ctx.Err() == nil {
		err := announcer.Announcements(ctx, func(subject string, commanded bool) {
			s.cache.Drop(subject)
			if commanded {
				s.leases.Drop(subject)
				s.fallback.local.unban(subject)
			}
		})
		if stint.KindOf(err) == stint.KindAuth && !told {
			told = true
			logger.Warn("stint: not permitted to listen to other processes: their refunds are noticed up to a second late", "cause", err)
		}
		sleep(ctx, jitter(time.Second))
	}
}

// Take implements [stint.Store].
func (s *Stack) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if s.observer == nil {
		return s.top.Take(ctx, r)
	}
	return s.observed(ctx, r)
}

// observed is Take with somebody looking on. Apart, for a request whose address is given
// away has to be allocated.
func (s *Stack) observed(ctx context.Context, r stint.Request) (stint.Decision, error) {
	start := time.Now()
	d, err := s.top.Take(ctx, r)
	s.observer.Decided(&r, &d, err, time.Since(start))
	return d, err
}

// Amend implements [stint.Store].
func (s *Stack) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	return s.top.Amend(ctx, c, a)
}

// Command implements [stint.Store].
func (s *Stack) Command(ctx context.Context, c stint.Command) error { return s.top.Command(ctx, c) }

// Breaker returns the state of the breaker.
func (s *Stack) Breaker() BreakerState { return s.breaker.State() }

// Instances returns how many processes are known to share the store.
func (s *Stack) Instances() int { return s.fallback.Instances() }

// Close gives back what is leased, answers who is waiting, charges what is owed, and ends all
// that goes on in the background. It takes some seconds at most, if the store does not
// answer. The store stays the caller's to close.
func (s *Stack) Close() error {
	s.stop()
	s.work.Wait()
	return errors.Join(s.leases.Close(), s.batching.Close(), s.fallback.Close(), s.breaker.Close())
}

// jitter is d, give or take a fifth: processes that lost the store together do not
// come back together.
func jitter(d time.Duration) time.Duration { return d - d/5 + rand.N(2*d/5+1) }

// sleep waits for d, or until the context ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
