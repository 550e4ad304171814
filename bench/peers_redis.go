package main

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/stores"
)

// redisDecider decides with Redis whether to allow a request for a key. It also returns how much of
// the first window is then used, if that is known.
type redisDecider struct {
	name  string
	allow func(ctx context.Context, key string) (ok bool, used int64, err error)
	close func()
}

// redisPeer creates limiters that use a server, for a number of concurrent callers. Limiters that
// support only one limit use the first.
type redisPeer struct {
	name string
	open func(ctx context.Context, addr string, callers int, limits ...stint.Limit) redisDecider
}

// connect opens a limiter, whose name appears in errors.
func (p redisPeer) connect(ctx context.Context, addr string, callers int, limits ...stint.Limit) redisDecider {
	d := p.open(ctx, addr, callers, limits...)
	d.name = p.name
	return d
}

// redisPeers lists the contenders. The last two are not libraries: a script with a sorted set, and a
// bare round trip.
var redisPeers = []redisPeer{
	{"stint, plain", openRedisStint},
	{"stint", openStack},
	{"redis_rate", openRedisRate},
	{"ulule", openRedisUlule},
	{"rueidislimiter", func(ctx context.Context, addr string, callers int, limits ...stint.Limit) redisDecider {
		return openRueidisLimiter(ctx, addr, callers, limits[0])
	}},
	{"sorted set", openSortedSet},
	{floor, openIncrement},
}

// Indexes of contenders in redisPeers.
const (
	plain     = 0
	stack     = 1
	firstPeer = 2
	rival     = 4
)

// floor is the name of the contender without limits.
const floor = "INCR"

func redisNames() []string {
	var names []string
	for _, p := range redisPeers {
		names = append(names, p.name)
	}
	return names
}

// plainPrefix separates the keys of the plain store from those of the stack. Otherwise, the stack
// would treat the plain store as another process with the same subjects.
const plainPrefix = "plain"

// openRedisStint opens stint with its plain Redis store.
func openRedisStint(ctx context.Context, addr string, _ int, limits ...stint.Limit) redisDecider {
	store := contest.Must(redisstore.Open(ctx, redisstore.Config{URL: "redis://" + addr, Prefix: plainPrefix}))
	return openLimiter(store, limits)
}

// openStack opens stint with the store of [stores.Open].
func openStack(ctx context.Context, addr string, _ int, limits ...stint.Limit) redisDecider {
	return openLimiter(openStore(ctx, addr, stint.FailurePolicy{}), limits)
}

// openStore opens the recommended store over Redis. The failure policy determines what happens when
// Redis is slow.
func openStore(ctx context.Context, addr string, failure stint.FailurePolicy) stores.Store {
	quiet := resilience.Config{Failure: failure, Logger: slog.New(slog.DiscardHandler)}
	store := contest.Must(stores.Config{Resilience: quiet}.Open(ctx, "redis://"+addr))
	contest.OK(store.Ping(ctx))
	return store
}

// closableStore is a store that must be closed.
type closableStore interface {
	stint.Store
	Close() error
}

func openLimiter(store closableStore, limits []stint.Limit) redisDecider {
	lim := newLimiter(store, limits)
	return redisDecider{
		allow: func(ctx context.Context, key string) (bool, int64, error) {
			d, err := lim.Allow(ctx, key)
			if err != nil {
				return false, 0, err
			}
			return d.Allowed && !d.Degraded, d.Usages()[0].Used, nil
		},
		close: func() { store.Close() },
	}
}

func openRedisRate(_ context.Context, addr string, callers int, limits ...stint.Limit) redisDecider {
	l := limits[0]
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: callers})
	lim := redis_rate.NewLimiter(client)
	rate := redis_rate.Limit{Rate: int(l.Max), Burst: int(l.Max), Period: l.Window}
	return redisDecider{
		allow: func(ctx context.Context, key string) (bool, int64, error) {
			res, err := lim.Allow(ctx, key, rate)
			if err != nil {
				return false, 0, err
			}
			return res.Allowed > 0, l.Max - int64(res.Remaining), nil
		},
		close: func() { client.Close() },
	}
}

func openRedisUlule(_ context.Context, addr string, callers int, limits ...stint.Limit) redisDecider {
	l := limits[0]
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: callers})
	store := contest.Must(ululeredis.NewStore(client))
	lim := limiter.New(store, limiter.Rate{Limit: l.Max, Period: l.Window})
	return redisDecider{
		allow: func(ctx context.Context, key string) (bool, int64, error) {
			c, err := lim.Increment(ctx, key, 1)
			return !c.Reached, c.Limit - c.Remaining, err
		},
		close: func() { client.Close() },
	}
}

//go:embed lua/sortedset.lua
var sortedSetScript string

// openSortedSet opens a sliding window log in a sorted set, with the client that stint uses. Its keys
// are as long as stint's.
func openSortedSet(_ context.Context, addr string, _ int, limits ...stint.Limit) redisDecider {
	client := contest.Must(rueidis.NewClient(clientOption(addr)))
	script := rueidis.NewLuaScript(sortedSetScript)
	l := limits[0]
	most, window, id := fmt.Sprint(l.Max), fmt.Sprint(l.Window.Microseconds()), l.ID()
	var calls atomic.Int64
	return redisDecider{
		allow: func(ctx context.Context, key string) (bool, int64, error) {
			call := strconv.FormatInt(calls.Add(1), 36)
			answer, err := script.Exec(ctx, client, []string{"zslog:{" + key + "}:" + id},
				[]string{call, most, window}).AsIntSlice()
			if err != nil {
				return false, 0, err
			}
			return answer[0] == 1, answer[1], nil
		},
		close: client.Close,
	}
}

// openRueidisLimiter opens rueidislimiter, which counts in fixed windows. Each limit has a counter, and
// another key for the end of its window. A call supports only one limit, so there is a call for each
// limit, in sequence.
func openRueidisLimiter(_ context.Context, addr string, _ int, limits ...stint.Limit) redisDecider {
	client := contest.Must(rueidis.NewClient(clientOption(addr)))
	limiters := make([]rueidislimiter.RateLimiterClient, len(limits))
	for i, l := range limits {
		limiters[i] = contest.Must(rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
			ClientBuilder: func(rueidis.ClientOption) (rueidis.Client, error) { return client, nil },
			KeyPrefix:     "fixed" + strconv.Itoa(i),
			Limit:         int(l.Max),
			Window:        l.Window,
		}))
	}
	return redisDecider{
		allow: func(ctx context.Context, key string) (ok bool, used int64, err error) {
			ok = true
			for i, lim := range limiters {
				res, err := lim.Allow(ctx, key)
				if err != nil {
					return false, 0, err
				}
				ok = ok && res.Allowed
				if i == 0 {
					used = limits[0].Max - res.Remaining
				}
			}
			return ok, used, nil
		},
		close: client.Close,
	}
}

// openIncrement opens the lower bound: one INCR and no limit.
func openIncrement(_ context.Context, addr string, _ int, _ ...stint.Limit) redisDecider {
	client := contest.Must(rueidis.NewClient(clientOption(addr)))
	return redisDecider{
		allow: func(ctx context.Context, key string) (bool, int64, error) {
			used, err := client.Do(ctx, client.B().Incr().Key("incr:{"+key+"}").Build()).AsInt64()
			return true, used, err
		},
		close: client.Close,
	}
}
