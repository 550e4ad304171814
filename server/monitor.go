package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/observe"
)

// openMonitor opens the monitor. Everything that the monitor watches must be opened after it, and
// closed before it.
func (s *Server) openMonitor(context.Context) error {
	c := s.c.Observe
	c.Logger, c.Webhooks = s.c.Logger, s.webhooks
	var err error
	if s.monitor, err = observe.New(c); err != nil {
		return fmt.Errorf("server: %w", contract.Mistakes(err))
	}
	s.undo.push("the monitor", func(context.Context) error { return s.monitor.Close() })
	return nil
}

func memoryHealth(store *memorystore.Store) func(context.Context) (observe.StoreHealth, error) {
	return func(context.Context) (observe.StoreHealth, error) {
		stats := store.Stats()
		return observe.StoreHealth{
			Kind: memoryStore, Name: memoryStore,
			Subjects: stats.Subjects, Bytes: stats.Bytes, MaxBytes: stats.MaxBytes,
		}, nil
	}
}

func redisHealth(
	store sharedStore, name string, logger *slog.Logger,
) func(context.Context) (observe.StoreHealth, error) {
	var cpu cpuShare
	var clocks clockSteps
	start := time.Now()
	return func(ctx context.Context) (observe.StoreHealth, error) {
		health := observe.StoreHealth{Kind: "redis", Name: name, Breaker: store.Breaker(), Instances: store.Instances()}
		info, err := store.Info(ctx)
		if err != nil {
			return health, err
		}
		health.Warnings, health.Lost = info.Warnings, info.Lost
		now := time.Now()
		if ours := now.Round(0).Sub(start.Round(0)) - now.Sub(start); clocks.look(info.ClockAhead, ours, now) {
			logger.Warn("stint: the clock of Redis was set: windows and bans end earlier or later by the same amount",
				"server", clocks.last.Server, "by", time.Duration(clocks.last.By)*time.Second)
		}
		health.Redis = &observe.RedisInfo{
			Version: info.Version, OpsPerSecond: float64(info.OpsPerSecond),
			UsedMemory: info.UsedMemory, MaxMemory: info.MaxMemory, Policy: info.MaxMemoryPolicy,
			MemoryShare: info.MemoryShare, CPUShare: cpu.of(info.CPUTime, time.Now()),
			Evicted: info.Evicted, Clients: info.Clients, Keys: info.Keys,
			ClockSteps: clocks.count, LastClockStep: clocks.last,
		}
		return health, nil
	}
}

// cpuShare computes the CPU usage of Redis servers from the CPU times that they report.
type cpuShare struct {
	at   time.Time
	busy map[string]time.Duration
}

// of returns the CPU usage of the busiest server since the last call, from 0 to 1. busy is the CPU
// time that each server's main thread has used since the server started. The result is 0 on the
// first call. Servers that have restarted since the last call are ignored.
func (c *cpuShare) of(busy map[string]time.Duration, now time.Time) (share float64) {
	for addr, t := range busy {
		if before, ok := c.busy[addr]; ok && now.After(c.at) {
			share = max(share, float64(t-before)/float64(now.Sub(c.at)))
		}
	}
	c.at, c.busy = now, busy
	return min(share, 1)
}

// clockStep is the smallest jump of a clock that counts as a step. It must be well above the error
// of measuring the difference between two clocks, which is half a second at most.
const clockStep = 2 * time.Second

type clockSteps struct {
	// ahead maps each server to the time by which its clock was ahead of our monotonic clock at the
	// last call.
	ahead map[string]time.Duration
	count int64
	last  *observe.ClockStep
}

// look reports whether any server's clock was set since the last call. ahead maps each server to
// the time by which its clock is ahead of our wall clock. ours is the total time by which our wall
// clock has been set forward since the start.
func (c *clockSteps) look(ahead map[string]time.Duration, ours time.Duration, now time.Time) (found bool) {
	seen := map[string]time.Duration{}
	for server, d := range ahead {
		seen[server] = d + ours
		before, known := c.ahead[server]
		if by := seen[server] - before; known && by.Abs() >= clockStep {
			found = true
			c.count++
			c.last = &observe.ClockStep{At: now, Server: server, By: by.Round(time.Second).Seconds()}
		}
	}
	c.ahead = seen
	return found
}

func readWebhooks(c *config.Config, logger *slog.Logger) ([]observe.Webhook, error) {
	var all []observe.Webhook
	for _, w := range c.Webhooks {
		key, err := callers.ReadSecret(w.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("server: the key of a webhook: %w", err)
		}
		hook := observe.Webhook{URL: w.URL, Key: key}
		if err := hook.Validate(); err != nil {
			return nil, fmt.Errorf("server: %s: %w", w.KeyFile, contract.Mistakes(err))
		}
		callers.WarnReadable(logger, "key of a webhook", w.KeyFile)
		all = append(all, hook)
	}
	return all, nil
}
