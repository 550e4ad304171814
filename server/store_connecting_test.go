package server

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
)

// TestInspectBeforeConnected: it shows what Redis knows once that is there, and says why it is not
// before.
func TestInspectBeforeConnected(t *testing.T) {
	_, away := redisstore.Open(t.Context(), redisstore.Config{URL: "redis://127.0.0.1:1"})
	late := newConnectingStore(nil, away)
	defer late.Close()
	claim := stint.Claim{Subject: "user:1", Limits: []stint.Limit{stint.PerHour(10)}}
	_, inspect := late.Inspect(t.Context(), claim)
	_, bans := late.Bans(t.Context(), 1)
	_, scopes := late.Scopes(t.Context(), "user:1")
	_, info := late.Info(t.Context())
	for op, err := range map[string]error{"inspect": inspect, "bans": bans, "scopes": scopes, "info": info} {
		var failed *stint.StoreError
		if !errors.Is(err, away) || !errors.As(err, &failed) || failed.Op != op || failed.Kind != errkind.Unreachable {
			t.Errorf("%s: %v, want why the store is away", op, err)
		}
	}

	server := redistest.Start(t, "--requirepass", "secret")
	_, locked := redisstore.Open(t.Context(), redisstore.Config{URL: "redis://" + server.Addr()})
	_, err := newConnectingStore(nil, locked).Inspect(t.Context(), claim)
	if kind := errkind.Of(err); kind != errkind.Auth {
		t.Errorf("%v: of the kind %s, want auth", err, kind)
	}

	redis, err := redisstore.Open(t.Context(), redisstore.Config{URL: redistest.Start(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	late.store.Store(redis)
	if err := late.Command(t.Context(),
		stint.Command{Kind: stint.CommandBan, Subject: "user:1", For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if shown, err := late.Inspect(t.Context(), claim); err != nil || shown.Ban.Until.IsZero() {
		t.Errorf("shown %+v, %v; want a ban", shown, err)
	}
	if list, err := late.Bans(t.Context(), 5); err != nil || len(list) != 1 {
		t.Errorf("bans %v, %v; want one", list, err)
	}
	claim.Scope, claim.Cost = "reports", 1
	if _, err := late.Take(t.Context(), stint.Request{Claim: claim}); err != nil {
		t.Fatal(err)
	}
	if list, err := late.Scopes(t.Context(), "user:1"); err != nil || len(list) != 1 || list[0] != "reports" {
		t.Errorf("scopes %q, %v; want reports", list, err)
	}
	if i, err := late.Info(t.Context()); err != nil || i.Version == "" {
		t.Errorf("info %+v, %v; want a version", i, err)
	}
}
