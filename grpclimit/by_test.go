package grpclimit_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/grpclimit"
	"github.com/stint-limiter/stint/internal/testkit"
)

// by serves an echo behind the interceptors of By.
func by(t *testing.T, e *echo, key grpclimit.KeyFunc, options ...grpclimit.ByOption) *grpc.ClientConn {
	t.Helper()
	unary, stream := grpclimit.By(key, options...)
	return e.serve(t, []grpc.UnaryServerInterceptor{unary}, []grpc.StreamServerInterceptor{stream})
}

// userOf is the caller's own word, which is enough for a test.
func userOf(ctx context.Context) string {
	return strings.Join(metadata.ValueFromIncomingContext(ctx, "user"), "")
}

// TestBy: calls and streams of a key count together, keys do not, and a denial says what a guard's
// does.
func TestBy(t *testing.T) {
	conn := by(t, &echo{chat: func(grpc.ServerStream) error { return nil }}, userOf, stint.PerHour(2))
	alice := metadata.AppendToOutgoingContext(t.Context(), "user", "user:alice")
	bob := metadata.AppendToOutgoingContext(t.Context(), "user", "user:bob")
	if err := say(alice, conn); err != nil {
		t.Error(err)
	}
	stream, err := conn.NewStream(alice, chatDesc, chatMethod)
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.RecvMsg(nil) // until the server has ended it
	got := refusalOf(t, alice, conn)
	if got.code != codes.ResourceExhausted || got.retry < 59*time.Minute || len(got.pushback) != 1 ||
		!slices.Equal(got.violations, []string{"policy:default 2/1h"}) {
		t.Errorf("got %+v, want a denial for an hour", got)
	}
	if err := say(bob, conn); err != nil {
		t.Errorf("another key: %v", err)
	}
	if err := say(t.Context(), conn); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "no key") {
		t.Errorf("no key: got %v, want Internal", err)
	}
	unary, _ := grpclimit.By(userOf, stint.PerHour(2))
	_, err = unary(t.Context(), nil, &grpc.UnaryServerInfo{}, nil)
	if !errors.Is(err, grpclimit.ErrNoKey) || status.Code(err) != codes.Internal {
		t.Errorf("no key: an outer interceptor gets %v, want ErrNoKey with the code Internal", err)
	}
	for _, key := range []string{"\x00everyone", strings.Repeat("x", stint.MaxSubject+1)} {
		conn := by(t, &echo{}, func(context.Context) string { return key }, stint.PerHour(2))
		if err := say(t.Context(), conn); status.Code(err) != codes.Internal {
			t.Errorf("the key %.9q: got %v, want Internal: a repeat would fail too", key, err)
		}
	}
}

// TestClientIP: the metadata of a trusted proxy name the client, and no others do.
func TestClientIP(t *testing.T) {
	for _, test := range []struct {
		key  grpclimit.KeyFunc
		want codes.Code
	}{{grpclimit.ClientIP("loopback"), codes.OK}, {grpclimit.ClientIP(), codes.ResourceExhausted}} {
		conn := by(t, &echo{}, test.key, stint.PerHour(1))
		got := codes.OK
		for _, client := range []string{"203.0.113.1", "203.0.113.2"} {
			got = status.Code(say(metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-for", client), conn))
		}
		if got != test.want {
			t.Errorf("a second client behind a proxy: got %v, want %v", got, test.want)
		}
	}
}

// TestByLimits: calls have limits and costs of their own, and those of By if they bring none.
func TestByLimits(t *testing.T) {
	limits := grpclimit.WithLimits(func(ctx context.Context) []stint.Limit {
		if userOf(ctx) == "user:alice" {
			return []stint.Limit{stint.PerHour(4)}
		}
		return nil
	})
	store := newStore(t)
	cost := grpclimit.WithCost(func(context.Context) int64 { return 2 })
	conn := by(t, &echo{}, userOf, stint.PerHour(2), limits, cost, grpclimit.WithName("api"),
		grpclimit.WithStore(store))
	for user, want := range map[string]int{"user:alice": 2, "user:bob": 1} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "user", user)
		n := 0
		for say(ctx, conn) == nil {
			n++
		}
		if n != want {
			t.Errorf("%s: got %d calls of 2 units, want %d", user, n, want)
		}
	}
	testkit.Panics(t, "grpclimit: By: requests have limits of their own, and a shared store counts them under a name",
		func() { grpclimit.By(userOf, limits, grpclimit.WithStore(store)) })
}

// TestByAddress: without a key the client's address counts, and not its connection.
func TestByAddress(t *testing.T) {
	store := newStore(t)
	first := by(t, &echo{}, grpclimit.ClientIP(), stint.PerHour(2), grpclimit.WithStore(store))
	second := by(t, &echo{}, grpclimit.ClientIP(), stint.PerHour(2), grpclimit.WithStore(store))
	if got := allowed(t, first, 1) + allowed(t, second, 3); got != 2 {
		t.Errorf("%d calls on one store were let through, want 2", got)
	}
	if got, err := store.Scopes(t.Context(), "ip:127.0.0.1"); err != nil || !slices.Equal(got, []string{"2/1h"}) {
		t.Errorf("got the scopes %q, %v; want the limits", got, err)
	}
}
