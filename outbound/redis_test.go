package outbound_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

func openRedis(t *testing.T, url string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(t.Context(), redisstore.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// awaitPause returns when a process sees a pause, and how long it is.
func awaitPause(t *testing.T, c *outbound.Client) (left time.Duration) {
	t.Helper()
	testkit.Eventually(t, "the process hears of the pause", func() bool {
		d, err := c.Peek(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		left = d.RetryAfter
		return d.Banned
	})
	return left
}

// openStack is a store as a process would use it, with a budget that holds on a busy machine too.
func openStack(t *testing.T, url string) *resilience.Stack {
	t.Helper()
	s, err := resilience.New(openRedis(t, url), resilience.Config{
		Failure: stint.FailurePolicy{Mode: stint.FailError, Budget: 10 * time.Second},
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Processes that each have a store of their own on one Redis pause together.
func TestPauseThroughRedis(t *testing.T) {
	server := redistest.Start(t)
	open := func() stint.Store { return openStack(t, server.URL()) }
	fast := igdb()
	fast.FailFast = true
	told, other, hasty := newClient(t, open(), igdb()), newClient(t, open(), igdb()), newClient(t, open(), fast)

	const pause = 400 * time.Millisecond
	end := time.Now().Add(pause)
	told.Cooldown(pause)
	awaitPause(t, hasty)
	if _, err := hasty.Wait(t.Context()); !errors.Is(err, outbound.ErrCoolingDown) {
		t.Errorf("got %v, want that there is a pause", err)
	}
	var calls sync.WaitGroup
	for _, c := range []*outbound.Client{told, other} {
		calls.Go(func() {
			if _, err := c.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			if early := time.Until(end); early > 0 {
				t.Errorf("called %v before the end of the pause", early)
			}
		})
	}
	calls.Wait()
	// A shorter one, written by a process that does not know of the longer, changes nothing.
	told.Cooldown(10 * time.Minute)
	awaitPause(t, other)
	other.Cooldown(time.Millisecond)
	time.Sleep(50 * time.Millisecond) // its write
	if left := awaitPause(t, hasty); left < 5*time.Minute {
		t.Errorf("%v of the pause are left, want nearly 10m", left)
	}
	if keys := redistest.KeysWithoutTTL(t, server); len(keys) > 0 {
		t.Errorf("keys without a TTL: %v", keys)
	}
}

// Without the store a process obeys what it was told. The others hear of it when the store is back.
func TestPauseOutlivesAnOutage(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	told := newClient(t, openRedis(t, proxy.URL()), igdb())
	other := newClient(t, openRedis(t, server.URL()), igdb())
	mustWait(t, told)
	proxy.Cut()
	told.Cooldown(time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // less than the pause
	defer cancel()
	if _, err := told.Wait(ctx); !errors.Is(err, outbound.ErrCoolingDown) {
		t.Errorf("got %v, want that there is a pause", err)
	}
	mustWait(t, other) // it cannot know
	proxy.Restore()
	awaitPause(t, other)
}
