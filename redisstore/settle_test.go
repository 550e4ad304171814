package redisstore_test

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
)

// What a request with a hold cost more is charged though its state has expired or was reset, once
// among all processes.
func TestSettleAfterTheState(t *testing.T) {
	server := redistest.Start(t)
	stores, clock := clockedStores(t, server, 2)
	limits := []stint.Limit{stint.PerSecond(10), stint.TokenBucket(10, 10, time.Second),
		stint.PerSecond(10).WithName("n")}
	r := stint.Request{Claims: []stint.Claim{{Subject: "a", Limits: limits, Cost: 5}}, Hold: time.Minute}
	take := func(r stint.Request) stint.Decision {
		t.Helper()
		d, err := stores[0].Take(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	expire := func() {
		t.Helper()
		clock.Advance(3 * time.Second)
		for _, what := range []string{"limits", "limits/n"} {
			server.CLI(t, "DEL", redisstore.Key(stores[0], "a", what))
		}
	}
	want := func(units int64) {
		t.Helper()
		look := r
		look.Mode = stint.ModePeek
		d := take(look)
		for i, u := range d.Usages() {
			if u.Used != units {
				t.Errorf("%v: %d used, want %d", limits[i], u.Used, units)
			}
		}
	}
	d := take(r)
	expire()
	for i, applied := range []stint.Amended{{Changed: true, Charged: 9}, {}} {
		done, err := stores[i].Amend(t.Context(), d.Charge, stint.Amendment{Cost: 9})
		if done != applied || err != nil {
			t.Errorf("settlement %d: %+v, %v, want %+v", i+1, done, err, applied)
		}
		want(4)
	}
	clock.Advance(time.Minute)
	d = take(r)
	expire()
	if err := stores[0].Command(t.Context(), stint.Command{Kind: stint.CommandReset, Subject: "a",
		Limits: limits}); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Second)
	for i, applied := range []bool{true, false} {
		done, err := stores[i].Amend(t.Context(), d.Charge, stint.Amendment{Cost: 9})
		if done.Changed != applied || err != nil {
			t.Errorf("settlement %d of a hold from before a reset: %+v, %v", i+1, done, err)
		}
	}
	want(4)
	if keys := redistest.KeysWithoutTTL(t, server); len(keys) > 0 {
		t.Errorf("keys without a TTL: %q", keys)
	}
}

// A heartbeat reports that a charge is held only if all of its holds are open: one was lost here.
func TestExtendOfLostHolds(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	r := stint.Request{Hold: time.Minute}
	for _, subject := range []string{"a", "b"} {
		r.Claims = append(r.Claims, stint.Claim{Subject: subject, Limits: []stint.Limit{stint.PerHour(10)}, Cost: 1})
	}
	d, err := s.Take(t.Context(), r)
	if err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	for _, open := range []bool{true, false} {
		done, err := s.Amend(t.Context(), d.Charge, stint.Amendment{Kind: stint.AmendExtend})
		if done.Changed != open || err != nil {
			t.Errorf("extended: %+v, %v, want %v", done, err, open)
		}
		server.CLI(t, "DEL", redisstore.Key(s, "b", "holds"))
	}
}
