package main

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// redisDecider answers over Redis whether a key may go ahead, and how much of the first window is
// used then, where that is known.
type redisDecider struct {
	allow func(ctx context.Context, key string, cost int64) (ok bool, used int64, err error)
	close func()
}

// redisPeer makes limiters over a server, for a number of concurrent callers. Those that know one
// limit only take the first.
type redisPeer struct {
	name string
	open func(ctx context.Context, addr string, callers int, limits ...stint.Limit) (redisDecider, error)
}

// redisPeers are the contenders. The last two are not limiters of the same kind: what stint's
// script replaces, and the bare round trip.
var redisPeers = []redisPeer{
	{"stint, plain", func(ctx context.Context, addr string, _ int, limits ...stint.Limit) (redisDecider, error) {
		return openRedisStint(ctx, addr, limits...)
	}},
	{"stint", openStack},
	{"redis_rate", openRedisRate},
	{"ulule", openRedisUlule},
	{"rueidislimiter", func(ctx context.Context, addr string, callers int, limits ...stint.Limit) (
		redisDecider, error) {
		return openRueidisLimiter(ctx, addr, callers, limits[0])
	}},
	{"sorted set", func(ctx context.Context, addr string, _ int, limits ...stint.Limit) (redisDecider, error) {
		return openSortedSet(ctx, addr, limits[0])
	}},
	{floor, openIncrement},
}

// Where the contenders stand in redisPeers.
const (
	plain     = 0
	stack     = 1
	firstPeer = 2
	lastPeer  = 4
)

// floor is the name of the contender that limits nothing.
const floor = "INCR"

func redisNames() []string {
	var names []string
	for _, p := range redisPeers {
		names = append(names, p.name)
	}
	return names
}

// plainPrefix keeps the keys of the plain store apart from those of the stack, which would
// otherwise take it for another process with the same subjects.
const plainPrefix = "plain"

// openRedisStint is stint over its plain Redis store.
func openRedisStint(ctx context.Context, addr string, limits ...stint.Limit) (redisDecider, error) {
	store, err := redisstore.Open(ctx, redisstore.Config{URL: "redis://" + addr, Prefix: plainPrefix})
	if err != nil {
		return redisDecider{}, err
	}
	return openLimiter(store, func() { store.Close() }, limits)
}

// openStack is stint as recommended: with all that package resilience has. Its budget is longer
// than the 15 ms of the default, for the others wait for as long as it takes.
func openStack(ctx context.Context, addr string, _ int, limits ...stint.Limit) (redisDecider, error) {
	return openStackWith(ctx, addr, stint.FailurePolicy{Budget: 100 * time.Millisecond}, limits)
}

// openStackWith is openStack with what happens when the store is slow.
func openStackWith(ctx context.Context, addr string, failure stint.FailurePolicy, limits []stint.Limit) (
	redisDecider, error) {
	store, err := redisstore.Open(ctx, redisstore.Config{URL: "redis://" + addr})
	if err != nil {
		return redisDecider{}, err
	}
	all, err := resilience.New(store, resilience.Config{Failure: failure, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return redisDecider{}, err
	}
	return openLimiter(all, func() { all.Close(); store.Close() }, limits)
}

func openLimiter(store stint.Store, closeAll func(), limits []stint.Limit) (redisDecider, error) {
	var options []stint.Option
	for _, l := range limits {
		options = append(options, l)
	}
	lim, err := stint.New(store, options...)
	if err != nil {
		return redisDecider{}, err
	}
	return redisDecider{
		allow: func(ctx context.Context, key string, cost int64) (bool, int64, error) {
			d, err := lim.AllowN(ctx, key, cost)
			if err != nil {
				return false, 0, err
			}
			return d.Allowed && !d.Degraded, d.Usages()[0].Used, nil
		},
		close: closeAll,
	}, nil
}

func openRedisRate(_ context.Context, addr string, callers int, limits ...stint.Limit) (redisDecider, error) {
	l := limits[0]
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: callers})
	lim := redis_rate.NewLimiter(client)
	rate := redis_rate.Limit{Rate: int(l.Max), Burst: int(l.Max), Period: l.Window}
	return redisDecider{
		allow: func(ctx context.Context, key string, cost int64) (bool, int64, error) {
			res, err := lim.AllowN(ctx, key, rate, int(cost))
			if err != nil {
				return false, 0, err
			}
			return res.Allowed > 0, l.Max - int64(res.Remaining), nil
		},
		close: func() { client.Close() },
	}, nil
}

func openRedisUlule(_ context.Context, addr string, callers int, limits ...stint.Limit) (redisDecider, error) {
	l := limits[0]
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: callers})
	store, err := ululeredis.NewStore(client)
	if err != nil {
		return redisDecider{}, err
	}
	lim := limiter.New(store, limiter.Rate{Limit: l.Max, Period: l.Window})
	return redisDecider{
		allow: func(ctx context.Context, key string, cost int64) (bool, int64, error) {
			c, err := lim.Increment(ctx, key, cost)
			return !c.Reached, c.Limit - c.Remaining, err
		},
		close: func() { client.Close() },
	}, nil
}

//go:embed lua/sortedset.lua
var sortedSetScript string

// openSortedSet is the sliding window log in one sorted set per window, through the client that
// stint uses. Its keys are as long as stint's.
func openSortedSet(_ context.Context, addr string, limits ...stint.Limit) (redisDecider, error) {
	client, err := rueidis.NewClient(clientOption(addr))
	if err != nil {
		return redisDecider{}, err
	}
	script := rueidis.NewLuaScript(sortedSetScript)
	var calls atomic.Int64
	var bounds, names []string
	for _, l := range limits {
		bounds = append(bounds, fmt.Sprint(l.Max), fmt.Sprint(l.Window.Microseconds()))
		names = append(names, l.ID())
	}
	return redisDecider{
		allow: func(ctx context.Context, key string, _ int64) (bool, int64, error) {
			keys := make([]string, 0, len(names))
			for _, name := range names {
				keys = append(keys, sortedSetKey(key, name))
			}
			args := append(make([]string, 0, 1+len(bounds)), strconv.FormatInt(calls.Add(1), 36))
			ok, used, err := answer(script.Exec(ctx, client, keys, append(args, bounds...)))
			return ok == 1, used, err
		},
		close: client.Close,
	}, nil
}

func sortedSetKey(subject, limit string) string { return "zslog:{" + subject + "}:" + limit }

// openRueidisLimiter counts in a fixed window for each limit: a counter, and when its window ends
// in a key beside it. It knows one limit per call, and is called once for each, one after the
// other.
func openRueidisLimiter(_ context.Context, addr string, _ int, limits ...stint.Limit) (redisDecider, error) {
	client, err := rueidis.NewClient(clientOption(addr))
	if err != nil {
		return redisDecider{}, err
	}
	limiters := make([]rueidislimiter.RateLimiterClient, len(limits))
	for i, l := range limits {
		limiters[i], err = rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
			ClientBuilder: func(rueidis.ClientOption) (rueidis.Client, error) { return client, nil },
			KeyPrefix:     "fixed" + strconv.Itoa(i),
			Limit:         int(l.Max),
			Window:        l.Window,
		})
		if err != nil {
			client.Close()
			return redisDecider{}, err
		}
	}
	return redisDecider{
		allow: func(ctx context.Context, key string, cost int64) (ok bool, used int64, err error) {
			ok = true
			for i, lim := range limiters {
				res, err := lim.AllowN(ctx, key, cost)
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
	}, nil
}

func answer(res rueidis.RedisResult) (first, second int64, err error) {
	pair, err := res.AsIntSlice()
	if err != nil {
		return 0, 0, err
	}
	if len(pair) != 2 {
		return 0, 0, fmt.Errorf("got %d values; want 2", len(pair))
	}
	return pair[0], pair[1], nil
}

// openIncrement is the floor: one INCR and no limit.
func openIncrement(_ context.Context, addr string, _ int, _ ...stint.Limit) (redisDecider, error) {
	client, err := rueidis.NewClient(clientOption(addr))
	if err != nil {
		return redisDecider{}, err
	}
	return redisDecider{
		allow: func(ctx context.Context, key string, _ int64) (bool, int64, error) {
			used, err := client.Do(ctx, client.B().Incr().Key("incr:{"+key+"}").Build()).AsInt64()
			return true, used, err
		},
		close: client.Close,
	}, nil
}

// openNaive is the sequence that the script replaces: clean, add, expire and count, each a round
// trip, through the client that stint uses.
func openNaive(_ context.Context, addr string, l stint.Limit) (redisDecider, error) {
	client, err := rueidis.NewClient(clientOption(addr))
	if err != nil {
		return redisDecider{}, err
	}
	return redisDecider{
		allow: func(ctx context.Context, subject string, _ int64) (bool, int64, error) {
			key := "naive:{" + subject + "}"
			now := time.Now().UnixMicro()
			stamp := strconv.FormatInt(now, 10)
			oldest := strconv.FormatInt(now-l.Window.Microseconds(), 10)
			if err := client.Do(ctx, client.B().Zremrangebyscore().Key(key).Min("0").Max(oldest).Build()).
				Error(); err != nil {
				return false, 0, err
			}
			if err := client.Do(ctx, client.B().Zadd().Key(key).ScoreMember().ScoreMember(float64(now), stamp).Build()).
				Error(); err != nil {
				return false, 0, err
			}
			if err := client.Do(ctx, client.B().Expire().Key(key).Seconds(int64(l.Window.Seconds())+1).Build()).
				Error(); err != nil {
				return false, 0, err
			}
			used, err := client.Do(ctx, client.B().Zcard().Key(key).Build()).AsInt64()
			return used <= l.Max, used, err
		},
		close: client.Close,
	}, nil
}
