package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// MemoryStore is the name of the store in memory.
const MemoryStore = "memory"

// openStore makes the store that everything is decided by, and sees to its end.
func (s *Server) openStore(ctx context.Context) error {
	where := s.set.Store()
	where.URL = cmp.Or(s.c.Store, where.URL, MemoryStore)
	if where.URL == MemoryStore {
		if s.c.Store == "" && where.NameKeyFile != "" { // --store memory is somebody who tries something out
			return errors.New("server: store.name_key_file is for names in Redis, and the store is in memory; name a Redis with --store or store.url")
		}
		bytes := cmp.Or(s.c.StoreMemory, where.Memory, memorystore.DefaultMaxBytes)
		memory, err := memorystore.New(memorystore.Config{MaxBytes: bytes, MaxSubjects: subjectsIn(bytes)})
		if err != nil {
			return err
		}
		s.undo.push("the store in memory", func(context.Context) error { return memory.Close() })
		s.store, s.storeName = memory, MemoryStore
		s.monitor.WatchStore(memoryHealth(memory))
		return nil
	}
	s.storeName = label.URL(where.URL)
	if s.c.StoreMemory != 0 {
		return fmt.Errorf("server: the store is %s, and --store-memory is for the store in memory; the memory for decisions without Redis is failure.memory in the configuration", s.storeName)
	}
	redis, err := s.openRedis(ctx, where)
	if err != nil {
		return err
	}
	s.undo.push("the connections to Redis", func(context.Context) error { return redis.Close() })
	stack, err := resilience.New(redis, resilience.Config{
		Failure: s.set.Failure(), Instances: s.set.Instances(), LocalBytes: s.set.LocalBytes(),
		Observer: s.monitor, Logger: s.c.Logger,
	})
	if err != nil {
		return err
	}
	s.undo.push("the decisions under way", func(context.Context) error { return stack.Close() })
	s.store, s.stack = stack, stack
	s.monitor.WatchStore(redisHealth(redis, stack, s.storeName))
	return nil
}

// subjectsIn returns how many subjects a store in memory remembers: as many as the default for a size up to the default, and
// above it more in proportion, so that the size is what bounds them.
func subjectsIn(bytes int64) int {
	more := max(bytes/memorystore.DefaultMaxBytes, 1)
	return memorystore.DefaultMaxSubjects * int(min(more, 1000))
}

// openRedis connects to Redis, in the background if it is not there yet. Only settings that cannot be right are an error: a
// URL that cannot be read, and a name key that is not that of this Redis.
func (s *Server) openRedis(ctx context.Context, where policy.Store) (*lateStore, error) {
	options, err := StoreOptions(where, s.c.Logger)
	if err != nil {
		return nil, fmt.Errorf("server: the store: %w", err)
	}
	within, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	first, err := redisstore.Open(within, where.URL, options...)
	if mistake, ok := errors.AsType[*stint.InvalidError](err); ok {
		return nil, fmt.Errorf("server: the store: %w", mistake.Err)
	}
	if errors.Is(err, redisstore.ErrNameKey) {
		return nil, fmt.Errorf("server: the store: %w", err)
	}
	late := newLateStore(first, err)
	if err != nil {
		s.c.Logger.Error("server: the store cannot be used yet; deciding without it as the failure policy says, and trying again",
			"store", s.storeName, "mode", s.set.Failure().Mode, "error", err)
		late.connect(s.c.Logger, func(ctx context.Context) (*redisstore.Store, error) {
			return redisstore.Open(ctx, where.URL, options...)
		})
	}
	return late, nil
}
