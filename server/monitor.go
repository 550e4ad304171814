package server

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/server/envoyrls"
)

// openMonitor makes what watches everything else. It is there before all that it watches, and ends after it.
func (s *Server) openMonitor(context.Context) error {
	c := s.c.Observe
	c.Logger = s.c.Logger
	s.monitor = observe.New(c)
	s.undo.push("the monitor", func(context.Context) error { return s.monitor.Close() })
	return nil
}

// memoryHealth says how a store in memory is.
func memoryHealth(store *memorystore.Store) observe.Probe {
	return func(context.Context) (observe.StoreHealth, error) {
		stats := store.Stats()
		return observe.StoreHealth{
			Kind: MemoryStore, Name: MemoryStore,
			Subjects: stats.Subjects, Bytes: stats.Bytes, MaxBytes: stats.MaxBytes,
		}, nil
	}
}

// redisHealth asks Redis how it is.
func redisHealth(redis *lateStore, stack *resilience.Stack, name string) observe.Probe {
	return func(ctx context.Context) (observe.StoreHealth, error) {
		health := observe.StoreHealth{Kind: "redis", Name: name, Breaker: stack.Breaker().String(), Instances: stack.Instances()}
		info, err := redis.Info(ctx)
		if err != nil {
			return health, err
		}
		health.Warnings = info.Warnings
		health.Redis = &observe.RedisInfo{
			Version: info.Version, OpsPerSecond: float64(info.OpsPerSecond),
			UsedMemory: info.UsedMemory, MaxMemory: info.MaxMemory, Policy: info.MaxMemoryPolicy,
			Evicted: info.Evicted, Clients: info.Clients, Keys: info.Keys,
		}
		return health, nil
	}
}

// envoyTier is what Envoy's descriptors are counted under.
const envoyTier = "envoy"

// envoyObserver tells the monitor what becomes of Envoy's descriptors.
type envoyObserver struct{ monitor *observe.Monitor }

// Decided implements [envoyrls.Observer].
func (o envoyObserver) Decided(d *envoyrls.Descriptor) {
	if d.Hits < 0 {
		return // a refund
	}
	o.monitor.Ruled(&observe.Ruling{
		Tier: envoyTier, Policy: d.Rule, Subject: d.Subject, Limit: d.Limit,
		Decision: stint.Decision{
			Allowed: d.Outcome != envoyrls.Over, Degraded: d.Degraded, Unavailable: d.Unavailable, RetryAfter: d.RetryAfter,
		},
		Shadowed: d.Outcome == envoyrls.Shadowed,
		Took:     policy.Untimed,
	})
}

// Answered implements [envoyrls.Observer].
func (o envoyObserver) Answered(took time.Duration, err error) {
	if err != nil {
		o.monitor.Ruled(&observe.Ruling{Tier: envoyTier, Err: err, Took: took})
		return
	}
	o.monitor.Timed(took)
}
