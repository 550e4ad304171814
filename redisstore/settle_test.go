package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
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

// Whatever is passed as a charge is refused or changes nothing.
func TestOddChargesAreHarmless(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	claim := stint.Claim{Subject: "odd", Limits: []stint.Limit{stint.PerHour(1)}, Cost: 1}
	for _, c := range []stint.Charge{
		{},
		driver.NewCharge(nil, driver.ChargeData{ID: 1}),
		driver.NewCharge([]stint.Claim{claim}, driver.ChargeData{ID: 1, At: -1}),
		driver.NewCharge([]stint.Claim{claim}, driver.ChargeData{ID: 1, At: 1 << 60}),
		driver.NewCharge(slices.Repeat([]stint.Claim{claim}, 300), driver.ChargeData{ID: 1, At: 1}),
		driver.NewCharge([]stint.Claim{claim},
			driver.ChargeData{ID: 1, At: 1, Others: &driver.OtherStates{At: []int64{1}}}),
		driver.NewCharge([]stint.Claim{claim}, driver.ChargeData{ID: 1, At: 1}),
	} {
		for kind := range stint.AmendmentKind(5) {
			changed, err := s.Amend(t.Context(), c, stint.Amendment{Kind: kind})
			var invalid *stint.InvalidError
			if changed.Changed || err != nil && !errors.As(err, &invalid) {
				t.Errorf("%+v: changed %v, %v", c, changed, err)
			}
		}
	}
}

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
