package server

import (
	"cmp"
	"context"
	"fmt"
	"net/url"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint/memorystore"
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
		memory, err := memorystore.New(memorystore.Config{})
		if err != nil {
			return err
		}
		s.undo.push("the store in memory", func(context.Context) error { return memory.Close() })
		s.store, s.storeName = memory, MemoryStore
		s.monitor.WatchStore(memoryHealth(memory))
		return nil
	}
	s.storeName = redacted(where.URL)
	redis, err := s.openRedis(ctx, where.URL, where.Prefix)
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

// openRedis connects to Redis, in the background if it is not there yet. Only a URL that cannot be read is an error.
func (s *Server) openRedis(ctx context.Context, where, prefix string) (*lateStore, error) {
	readable := false
	options := []redisstore.Option{
		redisstore.WithLogger(s.c.Logger),
		redisstore.WithClientOption(func(*rueidis.ClientOption) { readable = true }), // called when the URL has been read
	}
	if prefix != "" {
		options = append(options, redisstore.WithPrefix(prefix))
	}
	within, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	first, err := redisstore.Open(within, where, options...)
	if err != nil && !readable {
		return nil, fmt.Errorf("server: the store: %w", err)
	}
	late := newLateStore(first, err)
	if err != nil {
		s.c.Logger.Error("server: the store cannot be used yet; deciding without it as the failure policy says, and trying again",
			"store", s.storeName, "mode", s.set.Failure().Mode, "error", err)
		late.connect(s.c.Logger, func(ctx context.Context) (*redisstore.Store, error) {
			return redisstore.Open(ctx, where, options...)
		})
	}
	return late, nil
}

// redacted returns a URL without its password.
func redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a URL that cannot be read"
	}
	return u.Redacted()
}
