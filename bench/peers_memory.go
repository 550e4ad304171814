package main

import (
	"context"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	golimiter "github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/memorystore"
)

// decider decides whether to allow a request for a key.
type decider struct {
	allow func(key string) (bool, error)
	close func()
}

// memoryPeer creates in-process limiters of limit per window.
type memoryPeer struct {
	name string
	open func(limit int64, window time.Duration) decider
}

// memoryPeers lists the contenders, stint first.
var memoryPeers = []memoryPeer{
	{"stint", func(limit int64, window time.Duration) decider {
		return openStint(stint.Per(limit, window))
	}},
	{"go-limiter", openGoLimiter},
	{"failsafe-go", openFailsafe},
	{"x/time/rate", openRate},
	{"throttled", openThrottled},
	{"ulule", openUlule},
}

func memoryNames() []string {
	var names []string
	for _, p := range memoryPeers {
		names = append(names, p.name)
	}
	return names
}

// openStint opens stint with a memory store that is large enough for all subjects of the bench.
func openStint(limits ...stint.Limit) decider {
	store := contest.Must(memorystore.New(memorystore.Config{}))
	lim := newLimiter(store, limits)
	ctx := context.Background()
	return decider{
		allow: func(key string) (bool, error) {
			d, err := lim.Allow(ctx, key)
			return d.Allowed, err
		},
		close: func() { store.Close() },
	}
}

func newLimiter(store stint.Store, limits []stint.Limit) *stint.Limiter {
	var options []stint.Option
	for _, l := range limits {
		options = append(options, l)
	}
	return contest.Must(stint.New(store, options...))
}

// openGoLimiter opens go-limiter, which counts in fixed windows, with one bucket per key.
func openGoLimiter(limit int64, window time.Duration) decider {
	store := contest.Must(golimiter.New(&golimiter.Config{Tokens: uint64(limit), Interval: window}))
	ctx := context.Background()
	return decider{
		allow: func(key string) (bool, error) {
			_, _, _, ok, err := store.Take(ctx, key)
			return ok, err
		},
		close: func() { store.Close(ctx) },
	}
}

// openFailsafe opens failsafe-go, which counts in fixed windows. Its limiter has no keys, so its users
// write the map from keys to limiters themselves.
func openFailsafe(limit int64, window time.Duration) decider {
	var limiters sync.Map
	return decider{
		allow: func(key string) (bool, error) {
			l, ok := limiters.Load(key)
			if !ok {
				l, _ = limiters.LoadOrStore(key, ratelimiter.NewBursty[any](uint(limit), window))
			}
			return l.(ratelimiter.RateLimiter[any]).TryAcquirePermit(), nil
		},
		close: limiters.Clear,
	}
}

// openRate opens x/time/rate, a token bucket. Like failsafe-go, it needs a map from keys to
// limiters.
func openRate(limit int64, window time.Duration) decider {
	var limiters sync.Map
	perSecond := rate.Limit(float64(limit) / window.Seconds())
	return decider{
		allow: func(key string) (bool, error) {
			l, ok := limiters.Load(key)
			if !ok {
				l, _ = limiters.LoadOrStore(key, rate.NewLimiter(perSecond, int(limit)))
			}
			return l.(*rate.Limiter).Allow(), nil
		},
		close: limiters.Clear,
	}
}

// openThrottled opens throttled, which uses GCRA, with an unbounded map.
func openThrottled(limit int64, window time.Duration) decider {
	store := contest.Must(memstore.NewCtx(0))
	lim := contest.Must(throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(int(limit), window),
		MaxBurst: int(limit) - 1,
	}))
	lim.SetMaxCASAttemptsLimit(1 << 20) // the default fails under contention
	ctx := context.Background()
	return decider{
		allow: func(key string) (bool, error) {
			limited, _, err := lim.RateLimitCtx(ctx, key, 1)
			return !limited, err
		},
		close: func() {},
	}
}

// openUlule opens ulule, which counts in fixed windows.
func openUlule(limit int64, window time.Duration) decider {
	lim := limiter.New(memory.NewStore(), limiter.Rate{Limit: limit, Period: window})
	ctx := context.Background()
	return decider{
		allow: func(key string) (bool, error) {
			c, err := lim.Get(ctx, key)
			return !c.Reached, err
		},
		close: func() {},
	}
}
