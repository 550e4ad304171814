package outbound_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/redisstore"
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
