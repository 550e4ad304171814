package redisstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
)

// What a charge cost more is charged though its state has expired, once among all processes, but
// not after a reset.
func TestRaiseAfterTheState(t *testing.T) {
	server := redistest.Start(t)
	stores, clock := clockedStores(t, server, 2)
	limits := []stint.Limit{stint.PerSecond(10), stint.TokenBucket(10, 10, time.Second),
		stint.PerSecond(10).WithName("n")}
	r := stint.Request{Claims: []stint.Claim{{Subject: "a", Limits: limits, Cost: 5}}}
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
	ttl, err := strconv.Atoi(server.CLI(t, "TTL", redisstore.Key(stores[0], "a", "settled")))
	if err != nil || ttl < 3590 || ttl > 3605+3605/8 {
		t.Errorf("what was settled is remembered for %d s (%v), want an hour, and up to an eighth more", ttl, err)
	}

	clock.Advance(time.Minute)
	d = take(r)
	expire()
	if err := stores[0].Command(t.Context(), stint.Command{Kind: stint.CommandReset, Subject: "a",
		Limits: limits}); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Second)
	for _, s := range stores {
		if done, err := s.Amend(t.Context(), d.Charge, stint.Amendment{Cost: 9}); done.Changed || err != nil {
			t.Errorf("settled from before a reset: %+v, %v", done, err)
		}
	}
	want(0)
	if keys := redistest.KeysWithoutTTL(t, server); len(keys) > 0 {
		t.Errorf("keys without a TTL: %q", keys)
	}
}
