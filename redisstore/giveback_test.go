package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
)

// A command whose answer is lost is not sent again: it gives back at most once.
func TestLostGiveBackIsNotRepeated(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	limits := []stint.Limit{stint.PerHour(10), stint.TokenBucket(10, 1, 24*time.Hour)}
	r := stint.Request{Claims: []stint.Claim{{Subject: "a", Limits: limits, Cost: 10}}}
	if d, err := s.Take(t.Context(), r); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	server.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := s.Command(ctx, stint.Command{Kind: stint.CommandGiveBack, Subject: "a", Limits: limits, Units: 3})
	server.Resume(t)
	if err == nil {
		t.Error("no error from a server that is stopped")
	}
	r.Mode, r.Claims[0].Cost = stint.ModePeek, 1
	d, err := s.Take(t.Context(), r) // on the same server, after whatever was sent
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range d.States() {
		if state.Used != 10 && state.Used != 7 {
			t.Errorf("%s: used %d, want 10, or 7 if the server did it", state.Limit, state.Used)
		}
	}
}

// What is not ours heals, and what is left has a TTL.
func TestGiveBackHeals(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	limits := []stint.Limit{stint.PerHour(10), stint.TokenBucket(10, 1, 24*time.Hour), stint.AtOnce(3, time.Hour)}
	command := stint.Command{Kind: stint.CommandGiveBack, Subject: "a", Limits: limits, Units: 3}
	for _, key := range []string{"limits"} {
		for _, plant := range [][]string{{"SET", "nonsense"}, {"LPUSH", "x"}, {"HSET", "x", "y"}} {
			server.CLI(t, append([]string{plant[0], "stint:{a}:" + key}, plant[1:]...)...)
			if err := s.Command(t.Context(), command); err != nil {
				t.Errorf("%s %v: %v", key, plant, err)
			}
			if got := server.CLI(t, "EXISTS", "stint:{a}:"+key); got != "0" {
				t.Errorf("%s %v is still there", key, plant)
			}
		}
	}
	d, err := s.Take(t.Context(), stint.Request{Claims: []stint.Claim{{Subject: "a", Limits: limits, Cost: 5}}})
	if err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	if err := s.Command(t.Context(), command); err != nil {
		t.Fatal(err)
	}
	wantTTLs(t, client(t, server.URL()))
}
