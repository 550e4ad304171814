package server

import (
	"context"

	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/resilience"
)

// openMonitor makes the monitor. It opens before everything that it watches, and closes after it.
func (s *Server) openMonitor(context.Context) error {
	c := s.c.Observe
	c.Logger = s.c.Logger
	s.monitor = observe.New(c)
	s.undo.push("the monitor", func(context.Context) error { return s.monitor.Close() })
	return nil
}

// memoryHealth reports the health of a store in memory.
func memoryHealth(store *memorystore.Store) func(context.Context) (observe.StoreHealth, error) {
	return func(context.Context) (observe.StoreHealth, error) {
		stats := store.Stats()
		return observe.StoreHealth{
			Kind: memoryStore, Name: memoryStore,
			Subjects: stats.Subjects, Bytes: stats.Bytes, MaxBytes: stats.MaxBytes,
		}, nil
	}
}

// redisHealth asks Redis for its health.
func redisHealth(redis *connectingStore, stack *resilience.Stack, name string) func(context.Context) (
	observe.StoreHealth, error) {
	return func(ctx context.Context) (observe.StoreHealth, error) {
		health := observe.StoreHealth{Kind: "redis", Name: name, Breaker: stack.Breaker(), Instances: stack.Instances()}
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
