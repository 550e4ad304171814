package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/stores"
)

const memoryStore = "memory"

func (s *Server) openStore(ctx context.Context) error {
	s.storeName = label.URL(s.c.storeOf(s.config))
	breaker := s.breaker()
	store, err := s.config.OpenStore(ctx, stores.Config{
		Memory: memorystore.Config{MaxBytes: s.c.StoreMemory},
		Redis:  redisstore.Config{URL: s.c.Store, Prefix: s.c.StorePrefix, Logger: s.c.Logger},
		Resilience: resilience.Config{
			BreakerFailures: breaker.Failures, BreakerProbe: breaker.probe, BreakerRetry: breaker.retry,
			Observer: s.monitor, Logger: s.c.Logger,
		},
	})
	if mistake, ok := errors.AsType[*stint.InvalidError](err); ok {
		return invalid(fmt.Errorf("the store: %w", mistake.Err))
	}
	if err != nil {
		return fmt.Errorf("server: the store: %w", err)
	}
	s.undo.push("the store", func(context.Context) error { return store.Close() })
	s.store = store
	switch store := store.(type) {
	case *memorystore.Store:
		s.monitor.WatchStore(memoryHealth(store))
	case sharedStore:
		s.shared = store
		s.monitor.WatchStore(redisHealth(store, s.storeName, s.c.Logger))
		leave := s.monitor.Share(store)
		s.undo.push("reports to other processes", func(context.Context) error { leave(); return nil })
	}
	return nil
}

type sharedStore interface {
	driver.Keeper
	Breaker() resilience.BreakerState
	Instances() int
	Info(ctx context.Context) (redisstore.Info, error)
}

// breakerState holds the breaker's settings in force, in the form that the admin listener shows.
type breakerState struct {
	Failures     int     `json:"failures"`
	Probe        float64 `json:"probe_seconds"`
	Retry        float64 `json:"retry_seconds"`
	probe, retry time.Duration
}

// breaker returns the breaker's settings. Flags take precedence over the policies as read at the
// start, which take precedence over the defaults.
func (s *Server) breaker() *breakerState {
	b := &breakerState{
		Failures: cmp.Or(s.c.BreakerFailures, s.config.BreakerFailures, contract.DefaultBreakerFailures),
		probe:    cmp.Or(s.c.BreakerProbe, s.config.BreakerProbe, contract.DefaultBreakerProbe),
		retry:    cmp.Or(s.c.BreakerRetry, s.config.BreakerRetry, contract.DefaultBreakerRetry),
	}
	b.Probe, b.Retry = b.probe.Seconds(), b.retry.Seconds()
	return b
}

// openOutbound creates the clients of the third-party APIs that the policies name. Callers of the
// JSON API can name one of these APIs, and wait until they may call it.
func (s *Server) openOutbound(context.Context) error {
	var err error
	s.apis, err = outbound.New(s.store, s.config.Outbound,
		outbound.Config{Observer: s.monitor, Logger: s.c.Logger})
	if err != nil {
		return err
	}
	s.undo.push("calls to other APIs", func(context.Context) error { s.apis.Close(); return nil })
	s.monitor.WatchOutbound(s.apis.Stats)
	return nil
}

// Outbound returns clients of the third-party APIs that the policies in force name, for programs
// that embed the server. The clients use the server's store and appear on its dashboard. Stop
// closes them.
func (s *Server) Outbound() (*outbound.Registry, error) {
	if !s.started.Load() {
		return nil, errNotStarted
	}
	return s.apis, nil
}
