package resilience

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
)

// Stack is a [stint.Store] that stays fast and calm over a store that is far away, slow or down:
// all parts of this package over one store, in the order that works.
type Stack struct {
	top layer

	// The parts, nil where switched off. A breaker that is switched off is there and never opens.
	cache    *denyCache
	leases   *leases
	fallback *fallback
	batching *batching
	breaker  *breaker

	start     time.Time
	instances int // as configured, for when there is no fallback
	stop      func()
	work      sync.WaitGroup
}

var _ stint.Store = (*Stack)(nil)

// What a store may have beside the methods of [driver.BatchStore]; see [New].
type (
	pinger interface {
		Ping(ctx context.Context) error
	}
	instanceCounter interface {
		Present(ctx context.Context, id string) (int, error)
	}
	announcer interface {
		Announcements(ctx context.Context, f func(subject string, commanded bool)) error
	}
)

// New puts a stack on a store:
//
//	redis, err := redisstore.Open(ctx, redisstore.Config{URL: "redis://localhost:6379/0"})
//	...
//	store, err := resilience.New(redis, resilience.Config{})
//	...
//	defer store.Close() // before the one of redis
//	lim, err := stint.New(store, stint.PerMinute(100))
//
// The stack uses three more methods if the store has them, as that of package redisstore does:
//
//   - Ping(ctx) error says cheaply whether the store is there.
//   - Present(ctx, id string) (int, error) registers the process of that id for the next ten
//     seconds, and returns the number of processes that are registered.
//   - Announcements(ctx, f func(subject string, commanded bool)) error calls f for each subject
//     that got room back in any process, until the context ends or the connection is lost. The
//     subject may be its hash if keys hold only that, or "" if it could be anyone's. Commanded is
//     whether it was reset, banned or unbanned, rather than given something back.
func New(store driver.BatchStore, c Config) (*Stack, error) {
	if store == nil {
		return nil, &stint.InvalidError{Err: errors.New("no store")}
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	if c.NoBreaker {
		c.BreakerFailures = math.MaxInt
	}
	s := &Stack{start: time.Now(), instances: max(c.Instances, 1), breaker: newBreaker(store, c)}
	s.top = bottom{s.breaker}
	if !c.NoBatching {
		s.batching = newBatching(s.breaker, c)
		s.top = s.batching
	}
	if !c.NoDeadline {
		s.top = newDeadlines(s.top, c.budget())
	}
	switch {
	case !c.NoFallback:
		var err error
		if s.fallback, err = newFallback(s.top, s.breaker, c); err != nil {
			return nil, err
		}
		if s.batching != nil {
			s.batching.ledger, s.fallback.below = s.fallback.ledger, true
		}
		if counter, ok := store.(instanceCounter); ok {
			s.fallback.countInstances(counter)
		}
		s.top = s.fallback
	case c.Observer != nil:
		s.top = observed{s.top, c.Observer}
	}
	if !c.NoLeases {
		s.leases = newLeases(s.top, c)
		s.top = s.leases
	}
	if !c.NoDenyCache {
		s.cache = newDenyCache(s.top, c)
		s.top = s.cache
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	if announcer, ok := store.(announcer); ok {
		s.work.Go(func() { s.listen(ctx, announcer, c.Logger) })
	}
	return s, nil
}

// listen forgets what other processes announce to be outdated. While it cannot listen, denials are
// remembered for a second at most, and leases until their end.
func (s *Stack) listen(ctx context.Context, announcer announcer, logger *slog.Logger) {
	warned := false
	for ctx.Err() == nil {
		err := announcer.Announcements(ctx, s.drop)
		if errkind.Of(err) == errkind.Auth && !warned {
			warned = true
			logger.Warn("stint: not permitted to listen to other processes: their refunds are noticed up to a second late",
				"cause", err)
		}
		sleep(ctx, jitter(time.Second))
	}
}

// drop forgets what is remembered of a subject that got room back elsewhere.
func (s *Stack) drop(subject string, commanded bool) {
	if s.cache != nil {
		s.cache.drop(subject)
	}
	if commanded && s.leases != nil {
		s.leases.drop(subject)
	}
	if commanded && s.fallback != nil {
		s.fallback.ledger.unban(subject)
	}
}

// Take implements [stint.Store]. What is in memory it answers without a [question], which would
// take half as long again.
func (s *Stack) Take(ctx context.Context, r stint.Request) (d stint.Decision, err error) {
	var asked time.Time
	leased := s.leases != nil && leasable(&r)
	if leased {
		asked = time.Now() // leases end by both clocks
	} else {
		asked = s.start.Add(time.Since(s.start)) // reads the monotonic clock alone, in half the time
	}
	var id denialID
	if s.cache != nil {
		if id = s.cache.identify(&r); s.cache.repeat(ctx, id, &r, &d, asked) {
			return d, nil
		}
	}
	if leased && s.leases.serve(ctx, &r, &d, asked) {
		return d, nil
	}
	return take(ctx, s.top, &r, asked, id)
}

// Amend implements [stint.Store].
func (s *Stack) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	return s.top.Amend(ctx, c, a)
}

// AmendsInOrder reports whether a holder need not wait for its heartbeats before it gives up its
// place; see package driver.
func (s *Stack) AmendsInOrder() bool { return s.fallback != nil }

// Command implements [stint.Store].
func (s *Stack) Command(ctx context.Context, c stint.Command) error { return s.top.Command(ctx, c) }

// Breaker returns the state of the breaker: "closed" while calls reach the store, "open" while none
// does, and "half-open" while one call finds out whether the store works again.
func (s *Stack) Breaker() string { return s.breaker.state() }

// Instances returns how many processes are known to share the store.
func (s *Stack) Instances() int {
	if s.fallback == nil {
		return s.instances
	}
	return s.fallback.instances()
}

// Close gives back leased units, answers callers who wait, charges what is owed, and ends all
// background work. It takes a few seconds at most if the store does not answer. It does not close
// the store.
func (s *Stack) Close() error {
	s.stop()
	s.work.Wait()
	var errs []error
	if s.leases != nil {
		errs = append(errs, s.leases.Close())
	}
	if s.batching != nil {
		s.batching.Close()
	}
	if s.fallback != nil {
		s.fallback.Close()
	}
	s.breaker.Close()
	return errors.Join(errs...)
}

// jitter is d, give or take a fifth: processes that lost the store together do not come back
// together.
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
