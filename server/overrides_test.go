package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestOverrides: an operator lowers a limit, and that applies at once. Readers and callers of the
// API may not, and readers get no list of names. Package main of cmd/stint tests what operators do and
// what is wrong with it; package e2e shows that other servers apply it.
func TestOverrides(t *testing.T) {
	const reader, app = "token-of-a-reader-only", "token-of-an-application"
	c := everywhere(t)
	c.AdminTokens = testkit.TempFile(t, "tokens", "alice: "+operator+"\nbob (read): "+reader+"\n")
	c.APITokens = testkit.TempFile(t, "api", "shop: "+app+"\n")
	r := start(t, c)
	lower := control.SetRequest{Target: control.Target{Subject: "ip:192.0.2.1"}, Policy: "all",
		Limits: []stint.Limit{stint.PerHour(0)}, Lower: true, Why: "TICKET-7"}
	past, other := lower, lower
	past.Until, other.Subject = time.Now().Add(-time.Minute), "envoy:test:user=7"
	for _, test := range []struct {
		token  string
		set    control.SetRequest
		status int
		text   string
	}{
		{reader, lower, http.StatusForbidden, "role"},
		{app, lower, http.StatusUnauthorized, "token"},
		{operator, past, http.StatusBadRequest, "which is in the past"},
		{operator, other, http.StatusBadRequest, "limits no subjects like"},
	} {
		_, err := r.operate(test.token).SetOverride(t.Context(), test.set)
		if e, ok := err.(*control.RefusedError); !ok || e.Status != test.status || !strings.Contains(e.Message, test.text) {
			t.Errorf("got %v, want %d, %s", err, test.status, test.text)
		}
	}
	if err := r.operate(reader).ExportOverrides(t.Context(), func([]byte) error { return nil }); err == nil {
		t.Error("a reader may export names")
	}
	for prefix, ok := range map[string]bool{"ip:": true, "ip:192.0.2.1": false, "user:mallory": false} {
		_, err := r.operate(reader).Overrides(t.Context(), prefix, 10)
		if e, refused := err.(*control.RefusedError); refused == ok || refused && e.Status != http.StatusForbidden {
			t.Errorf("a reader searches for %s: got %v", prefix, err)
		}
		if _, err := r.operate(operator).Overrides(t.Context(), prefix, 10); err != nil {
			t.Errorf("an operator searches for %s: %v", prefix, err)
		}
	}
	if _, err := r.operate(operator).SetOverride(t.Context(), lower); err != nil {
		t.Error(err)
	}
	r.wantTake(app, http.StatusTooManyRequests, "")
	r.wantLogged(`msg=audit who=alice what="limits set all 0/1h, or lower: TICKET-7"`)
}
