package outbound_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/outbound"
)

// igdb is the API of the documents' examples.
func igdb() outbound.API {
	return outbound.API{Name: "igdb", Limits: []stint.Limit{stint.PerSecond(4)}}
}

func newMemory(t testing.TB) *memorystore.Store {
	t.Helper()
	return guardtest.MemoryWith(t, memorystore.Config{MaxSubjects: 1000})
}

// newRegistry is one process.
func newRegistry(t testing.TB, store stint.Store, apis ...outbound.API) *outbound.Registry {
	t.Helper()
	return newRegistryWith(t, store, outbound.Config{}, apis...)
}

func newRegistryWith(t testing.TB, store stint.Store, c outbound.Config, apis ...outbound.API) *outbound.Registry {
	t.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	r := testkit.Must(outbound.New(store, apis, c))(t)
	t.Cleanup(r.Close)
	return r
}

// newClient is the client of one API in a process of its own.
func newClient(t testing.TB, store stint.Store, api outbound.API) *outbound.Client {
	t.Helper()
	return clientOf(t, newRegistry(t, store, api), api.Name)
}

func clientOf(t testing.TB, r *outbound.Registry, name string) *outbound.Client {
	t.Helper()
	c := testkit.Must(r.API(name))(t)
	return c
}

func mustWait(t testing.TB, c *outbound.Client) stint.Decision {
	t.Helper()
	d := testkit.Must(c.Wait(t.Context()))(t)
	return d
}

// wantCallAt waits for a call, and checks how long after the start it may be made.
func wantCallAt(t testing.TB, c *outbound.Client, start time.Time, want time.Duration) {
	t.Helper()
	mustWait(t, c)
	if got := time.Since(start).Truncate(time.Microsecond); got != want {
		t.Errorf("called after %v, want %v", got, want)
	}
}

// wantDenied checks a denial and returns how long it says to wait.
func wantDenied(t testing.TB, err error) time.Duration {
	t.Helper()
	denied, ok := errors.AsType[*stint.DeniedError](err)
	if !ok || denied.Key != "igdb:api" {
		t.Fatalf("got %v, want a denial of igdb:api", err)
	}
	return denied.RetryAfter
}

// errDown is why a flaky store fails.
var errDown = &stint.StoreError{Op: "command", Kind: stint.KindUnreachable, Err: errors.New("down")}

// flaky is a store whose commands fail while it is down, and which counts them.
type flaky struct {
	stint.Store
	down     atomic.Bool
	commands atomic.Int64
}

func (f *flaky) Command(ctx context.Context, c stint.Command) error {
	f.commands.Add(1)
	if f.down.Load() {
		return errDown
	}
	return f.Store.Command(ctx, c)
}
