package stores

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
)

// begin starts to connect to a Redis.
func begin(t *testing.T, url string) *connecting {
	t.Helper()
	c := newConnecting("a Redis", slog.New(slog.DiscardHandler), func(ctx context.Context) (*redisstore.Store, error) {
		return redisstore.Open(ctx, redisstore.Config{URL: url})
	})
	t.Cleanup(func() { c.Close() })
	_ = c.start(t.Context()) // calls say whether it has failed
	return c
}

// TestCallsBeforeConnected: every call fails with why Redis is away, and with what kind of failure
// that is.
func TestCallsBeforeConnected(t *testing.T) {
	locked := redistest.Start(t, "--requirepass", "secret")
	for want, url := range map[string]string{
		errkind.Unreachable: "redis://127.0.0.1:1", errkind.Auth: "redis://" + locked.Addr(),
	} {
		c := begin(t, url)
		claim := stint.Claim{Subject: "user:1", Limits: []stint.Limit{stint.PerHour(10)}}
		_, take := c.Take(t.Context(), stint.Request{Claims: []stint.Claim{claim}})
		_, amend := c.Amend(t.Context(), stint.Charge{}, stint.Amendment{})
		_, inspect := c.Inspect(t.Context(), claim)
		_, bans := c.Bans(t.Context(), 1)
		_, scopes := c.Scopes(t.Context(), "user:1")
		_, info := c.Info(t.Context())
		_, present := c.Present(t.Context(), "p")
		for op, err := range map[string]error{
			"take": take, "amend": amend, "command": c.Command(t.Context(), stint.Command{}), "inspect": inspect,
			"bans": bans, "scopes": scopes, "info": info, "ping": c.Ping(t.Context()), "present": present,
		} {
			var failed *stint.StoreError
			if !errors.As(err, &failed) || failed.Op != op || failed.Kind != want || failed.Err == nil ||
				strings.Count(err.Error(), "stint: ") != 1 {
				t.Errorf("%s of %s: %v, want why the store is away", op, url, err)
			}
		}
		if err := c.Announcements(t.Context(), nil); errkind.Of(err) == errkind.Auth || err == nil {
			t.Errorf("listening to %s: %v, want nothing about permissions", url, err)
		}
	}
}

// TestCallsOnceConnected: what the stack above asks for beside decisions reaches Redis.
func TestCallsOnceConnected(t *testing.T) {
	c := begin(t, redistest.Start(t).URL())
	claim := stint.Claim{Subject: "user:1", Scope: "reports", Cost: 1, Limits: []stint.Limit{stint.PerHour(10)}}
	if _, err := c.Take(t.Context(), stint.Request{Claims: []stint.Claim{claim}}); err != nil {
		t.Fatal(err)
	}
	ban := stint.Command{Kind: stint.CommandBan, Subject: "user:1", For: time.Hour}
	if err := c.Command(t.Context(), ban); err != nil {
		t.Fatal(err)
	}
	if shown, err := c.Inspect(t.Context(), claim); err != nil || shown.Ban.Until.IsZero() {
		t.Errorf("shown %+v, %v; want a ban", shown, err)
	}
	if list, err := c.Bans(t.Context(), 5); err != nil || len(list) != 1 {
		t.Errorf("bans %v, %v; want one", list, err)
	}
	if list, err := c.Scopes(t.Context(), "user:1"); err != nil || len(list) != 1 || list[0] != "reports" {
		t.Errorf("scopes %q, %v; want reports", list, err)
	}
	if i, err := c.Info(t.Context()); err != nil || i.Version == "" {
		t.Errorf("info %+v, %v; want a version", i, err)
	}
	if n, err := c.Present(t.Context(), "p"); err != nil || n != 1 {
		t.Errorf("%d processes, %v; want 1", n, err)
	}
}
