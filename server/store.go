package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/server/storeoptions"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// memoryStore is the name of the store in memory.
const memoryStore = "memory"

// openStore opens the store, and arranges for it to be closed.
func (s *Server) openStore(ctx context.Context) error {
	where := s.config.Store
	where.URL = cmp.Or(s.c.Store, where.URL, memoryStore)
	if where.URL == memoryStore {
		if s.c.Store == "" && where.NameKeyFile != "" { // someone who passes --store memory is trying something out
			return errors.New("server: store.name_key_file needs Redis, but the store is in memory; set a Redis with --store or store.url")
		}
		if s.c.Store == "" && where.CAFile+where.CertFile != "" {
			return errors.New("server: store.ca_file and store.cert_file need Redis, but the store is in memory; set a Redis with --store, REDIS_URL or store.url")
		}
		memory, err := memorystore.New(memorystore.Config{MaxBytes: cmp.Or(s.c.StoreMemory, where.Memory)})
		if err != nil {
			return err
		}
		s.undo.push("the store in memory", func(context.Context) error { return memory.Close() })
		s.store, s.storeName = memory, memoryStore
		s.monitor.WatchStore(memoryHealth(memory))
		return nil
	}
	s.storeName = label.URL(where.URL)
	if s.c.StoreMemory != 0 {
		return fmt.Errorf("server: the store is %s, and --store-memory is for the store in memory; for decisions without Redis set failure.memory in the configuration",
			s.storeName)
	}
	redis, err := s.openRedis(ctx, where)
	if err != nil {
		return err
	}
	s.undo.push("the connections to Redis", func(context.Context) error { return redis.Close() })
	breaker := s.breaker()
	stack, err := resilience.New(redis, resilience.Config{
		Failure: s.config.Set.Spec().Failure, Instances: s.config.Instances, LocalBytes: s.config.LocalBytes,
		BreakerFailures: breaker.Failures, BreakerProbe: breaker.probe, BreakerRetry: breaker.retry,
		Observer: s.monitor, Logger: s.c.Logger,
	})
	if err != nil {
		return err
	}
	s.undo.push("the decisions in progress", func(context.Context) error { return stack.Close() })
	s.store, s.stack = stack, stack
	s.monitor.WatchStore(redisHealth(redis, stack, s.storeName))
	return nil
}

// breakerState has the settings of the breaker that are in force, as the admin listener shows them.
type breakerState struct {
	Failures     int     `json:"failures"`
	Probe        float64 `json:"probe_seconds"`
	Retry        float64 `json:"retry_seconds"`
	probe, retry time.Duration
}

// breaker returns the settings of the breaker: those of flags, else of the policies as of the
// start, else the defaults.
func (s *Server) breaker() *breakerState {
	b := &breakerState{
		Failures: cmp.Or(s.c.BreakerFailures, s.config.BreakerFailures, contract.DefaultBreakerFailures),
		probe:    cmp.Or(s.c.BreakerProbe, s.config.BreakerProbe, contract.DefaultBreakerProbe),
		retry:    cmp.Or(s.c.BreakerRetry, s.config.BreakerRetry, contract.DefaultBreakerRetry),
	}
	b.Probe, b.Retry = b.probe.Seconds(), b.retry.Seconds()
	return b
}

// openRedis connects to Redis, in the background if it is not reachable yet. Only settings that
// cannot be right are an error: an invalid URL, and a name key that does not match this Redis.
func (s *Server) openRedis(ctx context.Context, where config.Store) (*connectingStore, error) {
	c, err := storeoptions.Redis(where, s.c.Logger)
	if err != nil {
		return nil, fmt.Errorf("server: the store: %w", err)
	}
	within, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	first, err := redisstore.Open(within, c)
	if mistake, ok := errors.AsType[*stint.InvalidError](err); ok {
		return nil, fmt.Errorf("server: the store: %w", mistake.Err)
	}
	if errors.Is(err, redisstore.ErrNameKey) {
		return nil, fmt.Errorf("server: the store: %w", err)
	}
	store := newConnectingStore(first, err)
	if err != nil {
		s.c.Logger.Error("server: the store cannot be used yet; deciding without it as the failure policy says, and retrying",
			"store", s.storeName, "mode", s.config.Set.Spec().Failure.Mode, "error", err)
		store.connect(s.c.Logger, func(ctx context.Context) (*redisstore.Store, error) {
			return redisstore.Open(ctx, c)
		})
	}
	return store, nil
}
