package observe_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

var (
	discard = slog.New(slog.DiscardHandler)
	client  = netip.MustParseAddr("203.0.113.9")
)

type claims = guardtest.Claims

// open returns a monitor that is closed when the test ends.
func open(t testing.TB, c observe.Config) *observe.Monitor {
	t.Helper()
	m := testkit.Must(observe.New(c))(t)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func newMonitor(t testing.TB) *observe.Monitor {
	t.Helper()
	return open(t, observe.Config{Logger: discard, Version: "v1.2.3"})
}

// newGuard returns a guard with an observer, over its own store in memory.
func newGuard(t testing.TB, text string, o stint.Observer) *policy.Guard {
	t.Helper()
	return guardtest.New(t, guardtest.Memory(t), text, policy.GuardConfig{Observer: o})
}

// watched returns a guard and the monitor that observes it.
func watched(t testing.TB, text string) (*observe.Monitor, *policy.Guard) {
	t.Helper()
	m := newMonitor(t)
	return m, newGuard(t, text, m)
}

// ask asks a guard about requests for a path, and returns how many were allowed.
func ask(t testing.TB, g *policy.Guard, n int, in policy.Input) (allowed int) {
	t.Helper()
	for range n {
		var v policy.Verdict
		if err := g.Decide(context.Background(), &in, &v); err == nil && v.Decision.Allowed {
			allowed++
		}
	}
	return allowed
}

func get(path string) policy.Input { return policy.Input{Method: "GET", Path: path, Peer: client} }

func timeout() error {
	return &stint.StoreError{Op: "take", Kind: stint.KindTimeout, Err: errors.New("no answer")}
}

// counted is how many requests had an outcome for a reason.
type counted struct {
	tier, policy, outcome, reason string
	want                          int64
}

func wantCounted(t *testing.T, m *observe.Monitor, all []counted) {
	t.Helper()
	for _, c := range all {
		if got := m.Counted(c.tier, c.policy, c.outcome, c.reason); got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}
