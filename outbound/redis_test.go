package outbound_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/redisstore"
)

// Without the store a process obeys what it was told. The others hear of it when the store is back.
func TestPauseOutlivesAnOutage(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	told := newClient(t, guardtest.Redis(t, redisstore.Config{URL: proxy.URL()}), igdb())
	other := newClient(t, guardtest.Redis(t, redisstore.Config{URL: server.URL()}), igdb())
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
	testkit.Eventually(t, "the other process hears of the pause", func() bool {
		d := testkit.Must(other.Peek(t.Context()))(t)
		return d.Banned
	})
}
