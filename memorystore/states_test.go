package memorystore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/testkit"
)

func take(t testing.TB, s *Store, r stint.Request) stint.Decision {
	t.Helper()
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	return testkit.Must(s.Take(context.Background(), r))(t)
}

func settle(t *testing.T, s *Store, c stint.Charge, cost int64) bool {
	t.Helper()
	return testkit.Must(s.Amend(context.Background(), c, stint.Amendment{Kind: stint.AmendSettle, Cost: cost}))(t).Changed
}

// A charge from before its subject was forgotten is not settled.
func TestChargeOfAForgottenState(t *testing.T) {
	s, clock := newClocked(t, Config{})
	r := units("a", 2, stint.PerMinute(10))
	old := take(t, s, r).Charge
	clock.Advance(2 * time.Minute)
	s.Sweep()
	if s.Len() != 0 {
		t.Fatal("not swept")
	}
	clock.Advance(-2 * time.Minute)
	young := take(t, s, r).Charge
	if settle(t, s, old, 0) || !settle(t, s, young, 0) {
		t.Error("want only the charge of the new state settled")
	}
}

// Whatever happens, what is kept is what is accounted for.
func TestAccountsOfEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 20 {
		s, clock := newClocked(t, Config{})
		limits := []stint.Limit{stint.PerSecond(3), stint.PerMinute(300), stint.PerSecond(3).BurstTimes(2),
			stint.PerSecond(20).WithName("n"), stint.TokenBucket(20, 5, time.Second),
			stint.TokenBucket(5, 5, time.Second).WithName("n"), stint.Concurrency(5, time.Second),
			{Max: 5, Window: time.Second, Algorithm: stint.AlgorithmFixed},
			stint.TokenBucket(7, 9, 2*time.Second).WithName("a-longer-name")}
		var charges []stint.Charge
		for range 500 {
			clock.Advance(time.Duration(rng.Int64N(3e8)) - 2e7)
			claim := stint.Claim{Subject: user(rng.IntN(3)), Scope: []string{"", "scope"}[rng.IntN(2)],
				Cost: rng.Int64N(4)}
			for _, i := range rng.Perm(len(limits))[:1+rng.IntN(4)] {
				if rng.IntN(8) > 0 && !slices.ContainsFunc(claim.Limits, func(l stint.Limit) bool {
					return contract.SameID(&l, &limits[i])
				}) {
					claim.Limits = append(claim.Limits, limits[i])
				}
			}
			r := stint.Request{Claims: []stint.Claim{claim}, Mode: stint.Mode(rng.IntN(3))}
			if rng.IntN(4) == 0 {
				r.ID = fmt.Sprint(rng.IntN(9))
			}
			if rng.IntN(4) == 0 {
				r.Bans = &stint.BanPolicy{After: 2, Within: time.Second, Durations: []time.Duration{time.Minute}}
			}
			if rng.IntN(4) == 0 {
				r.Claims = append(r.Claims, stint.Claim{Subject: user(3), Limits: limits[:1+rng.IntN(2)], Cost: 1})
			}
			if len(charges) > 0 && rng.IntN(3) == 0 {
				c := charges[rng.IntN(len(charges))]
				if rng.IntN(2) == 0 {
					settle(t, s, c, rng.Int64N(6))
				} else if r = driver.WithTerms(stint.Request{Claims: c.Claims(), Mode: stint.ModeReserve},
					driver.Terms{Booked: c.Data()}); r.Validate() == nil {
					take(t, s, r)
				}
			} else if r.Validate() == nil {
				if d := take(t, s, r); d.Charge.Data().ID != 0 {
					charges = append(charges, d.Charge)
				}
			}
			switch rng.IntN(20) {
			case 0:
				if len(claim.Limits) > 0 {
					_ = s.Command(context.Background(), stint.Command{Kind: stint.CommandReset, Subject: claim.Subject,
						Scope: claim.Scope, Limits: claim.Limits})
				}
			case 1:
				s.Sweep()
			case 2:
				if len(claim.Limits) > 0 {
					_ = s.Command(context.Background(),
						stint.Command{Kind: stint.CommandGiveBack, Subject: claim.Subject, Scope: claim.Scope,
							Limits: claim.Limits, Units: 2})
				}
			}
			checkAccounts(t, s)
		}
		clock.Advance(time.Hour)
		s.Sweep()
		if s.Len() != 0 {
			t.Errorf("%d subjects are left", s.Len())
		}
		for i := range s.shards {
			if n := len(s.shards[i].variantOf); n != 0 {
				t.Errorf("%d limits are left", n)
			}
		}
	}
}

// When a state expires is said by the limit that it was last written under, not by one that only
// looked for something in it: here one that refills sixty times as fast.
func TestExpiryIsOfTheLimitWrittenUnder(t *testing.T) {
	slow := stint.TokenBucket(1, 1, time.Hour)
	fast := stint.TokenBucket(60, 60, time.Hour)
	ctx := context.Background()
	for _, x := range []struct {
		name string
		look func(s *Store, old stint.Charge) (done stint.Amended, err error)
	}{
		{"settle", func(s *Store, old stint.Charge) (stint.Amended, error) {
			return s.Amend(ctx, old, stint.Amendment{Kind: stint.AmendSettle, Cost: 1})
		}},
		{"give back", func(s *Store, _ stint.Charge) (done stint.Amended, err error) {
			return done, s.Command(ctx, stint.Command{Kind: stint.CommandGiveBack, Subject: "user:1",
				Limits: []stint.Limit{fast}, Units: 1})
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			s, clock := newClocked(t, Config{})
			old := take(t, s, units("user:1", 1, fast))
			clock.Advance(time.Hour)
			take(t, s, units("user:1", 1, slow))
			clock.Advance(30 * time.Minute)
			if changed, err := x.look(s, old.Charge); changed.Changed || err != nil {
				t.Fatal(changed, err)
			}
			s.Sweep()
			if d := take(t, s, units("user:1", 1, slow)); d.Allowed || d.RetryAfter != 30*time.Minute {
				t.Errorf("allowed: %v, retry after %v; want a wait of half an hour", d.Allowed, d.RetryAfter)
			}
			checkAccounts(t, s)
		})
	}
}

// What has expired is not listed, though the sweeper has not come by.
func TestScopesThatHaveExpired(t *testing.T) {
	s, clock := newClocked(t, Config{})
	in := func(scope string, l stint.Limit) {
		r := units("user:1", 1, l)
		r.Claims[0].Scope = scope
		take(t, s, r)
	}
	for _, l := range []stint.Limit{stint.PerMinute(5), stint.TokenBucket(5, 5, time.Minute),
		stint.Concurrency(5, time.Minute)} {
		in("a minute of "+l.Algorithm.String(), l)
	}
	in("an hour", stint.PerHour(5))
	for _, want := range []int{4, 1, 0} {
		if got, err := s.Scopes(t.Context(), "user:1"); err != nil || len(got) != want {
			t.Errorf("scopes %q, %v; want %d", got, err, want)
		}
		clock.Advance(30 * time.Minute)
		if want == 1 {
			clock.Advance(time.Hour)
		}
	}
}
