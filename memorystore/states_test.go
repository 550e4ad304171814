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
	"github.com/stint-limiter/stint/internal/storebounds"
)

func take(t *testing.T, s *Store, r stint.Request) stint.Decision {
	t.Helper()
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	d, err := s.Take(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func settle(t *testing.T, s *Store, c stint.Charge, cost int64) bool {
	t.Helper()
	applied, err := s.Amend(context.Background(), c, stint.Amendment{Kind: stint.AmendSettle, Cost: cost})
	if err != nil {
		t.Fatal(err)
	}
	return applied.Changed
}

func reset(t *testing.T, s *Store, c stint.Claim) {
	t.Helper()
	if err := s.Command(context.Background(),
		stint.Command{Kind: stint.CommandReset, Subject: c.Subject, Scope: c.Scope, Limits: c.Limits}); err != nil {
		t.Fatal(err)
	}
}

func used(t *testing.T, s *Store, c stint.Claim) []int64 {
	t.Helper()
	var list []int64
	d := take(t, s, stint.Request{Claims: []stint.Claim{c}, Mode: stint.ModePeek})
	for _, u := range d.Usages() {
		list = append(list, u.Used)
	}
	return list
}

// A charge from before a reset, or from before its subject was forgotten, is not amended.
func TestChargesOfAnotherGeneration(t *testing.T) {
	clock := newClock()
	s := newStore(t, Config{Now: clock.now})
	claim := stint.Claim{Subject: "a", Scope: "x",
		Limits: []stint.Limit{stint.PerMinute(10), stint.TokenBucket(10, 1, time.Second)}, Cost: 2}
	for name, begin := range map[string]func(){
		"reset":  func() { reset(t, s, claim) },
		"of one": func() { reset(t, s, stint.Claim{Subject: "a", Scope: "x", Limits: claim.Limits[:1]}) },
		"of none": func() {
			reset(t, s,
				stint.Claim{Subject: "a", Scope: "x", Limits: []stint.Limit{stint.PerDay(1)}})
		},
		"forgotten": func() {
			now := clock.us.Load()
			clock.advance(2 * time.Hour) // what was settled is forgotten too
			s.Sweep()
			if s.Len() != 0 {
				t.Fatal("not swept")
			}
			clock.us.Store(now)
		},
	} {
		old := take(t, s, stint.Request{Claims: []stint.Claim{claim}}).Charge
		begin()
		young := take(t, s, stint.Request{Claims: []stint.Claim{claim}}).Charge
		before := used(t, s, claim)
		if old.Data().Generation == young.Data().Generation || young.Data().Generation == 0 {
			t.Errorf("%s: generation %d after %d", name, young.Data().Generation, old.Data().Generation)
		}
		if settle(t, s, old, 0) || !slices.Equal(used(t, s, claim), before) {
			t.Errorf("%s: a charge from before was settled", name)
		}
		if !settle(t, s, young, 0) {
			t.Errorf("%s: the charge since was not settled", name)
		}
		reset(t, s, claim)
	}
	checkAccounts(t, s)
}

// Limits with a name are a state of their own: own generation, own clock. A scope cannot be
// mistaken for a name, and is listed once.
func TestNamedLimits(t *testing.T) {
	clock := newClock()
	s := newStore(t, Config{Now: clock.now})
	long := fmt.Sprintf("%064d", 1)
	minute := stint.PerMinute(10)
	for _, subject := range []string{"a", "user:" + long} {
		claim := stint.Claim{Subject: subject, Scope: "x", Cost: 1,
			Limits: []stint.Limit{minute.WithName("n"), minute, stint.AtOnce(9, time.Minute).WithName("n"),
				minute.WithName(long), stint.PerHour(10).WithName("n")}}
		d := take(t, s, stint.Request{Claims: []stint.Claim{claim}, ID: "id"})
		for _, other := range []stint.Claim{{Subject: subject, Scope: "xn"}, {Subject: subject, Scope: "x\x01n"},
			{Subject: subject + "x", Scope: "n"}, {Subject: subject + "xn"}} {
			if other.Limits = []stint.Limit{minute}; used(t, s, other)[0] != 0 {
				t.Errorf("%q in %q has used something", other.Subject, other.Scope)
			}
		}
		if scopes, err := s.Scopes(t.Context(), subject); err != nil || !slices.Equal(scopes, []string{"x"}) {
			t.Errorf("scopes %q, %v; want x once", scopes, err)
		}
		seen := map[uint32]bool{}
		for i := range 3 {
			seen[d.Charge.Data().GenerationAt(i)] = true
		}
		if len(seen) != 3 || seen[0] || (stint.Amendment{}).Validate(&d.Charge) != nil {
			t.Errorf("generations %v, want three", seen)
		}
		reset(t, s, stint.Claim{Subject: subject, Scope: "x", Limits: claim.Limits[:1]})
		if got := used(t, s, claim); !slices.Equal(got, []int64{0, 1, 1, 1, 1}) {
			t.Errorf("used %v after the reset of one", got)
		}
		if !settle(t, s, d.Charge, 0) || !slices.Equal(used(t, s, claim), []int64{0, 0, 0, 0, 1}) {
			t.Errorf("used %v, want what is in the state that was reset", used(t, s, claim))
		}
		clock.advance(time.Minute)
		take(t, s, stint.Request{Claims: []stint.Claim{{
			Subject: subject, Scope: "x", Limits: []stint.Limit{minute}, Cost: 1}}})
		clock.advance(-time.Second) // only the state that was written since goes with the clock
		peek := take(t, s, stint.Request{Claims: []stint.Claim{claim}, Mode: stint.ModePeek})
		if u := peek.Usages(); u[1].ResetAfter != time.Minute || u[4].ResetAfter != time.Hour-59*time.Second {
			t.Errorf("resets %v and %v", u[1].ResetAfter, u[4].ResetAfter)
		}
		clock.advance(time.Second)
	}
	checkAccounts(t, s)
}

func TestNamedLimitsDoNotAllocate(t *testing.T) {
	clock := newClock()
	lim := newLimiter(t, newStore(t, Config{Now: clock.now}), stint.PerMinute(50).WithName("n"),
		stint.PerSecond(5).WithBurst(2).WithName("n"))
	for range 100 {
		clock.advance(time.Second)
		allow(t, lim, "user:1")
	}
	if a := testing.AllocsPerRun(500, func() {
		clock.advance(2 * time.Second)
		if d, _ := lim.Allow(context.Background(), "user:1"); !d.Allowed {
			t.Fatal("denied")
		}
	}); a != 0 {
		t.Errorf("%v allocations to allow", a)
	}
}

// However many have been settled since, and in whatever order, each applies, and applies once.
func TestEverySettlementAppliesOnce(t *testing.T) {
	clock := newClock()
	s := newStore(t, Config{Now: clock.now})
	const charges = 3 * storebounds.MaxSettled
	claim := stint.Claim{Subject: "a", Limits: []stint.Limit{stint.PerHour(1_000_000)}, Cost: 1}
	var all []stint.Charge
	for range charges {
		clock.advance(time.Millisecond)
		all = append(all, take(t, s, stint.Request{Claims: []stint.Claim{claim}}).Charge)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, want := range []bool{true, false} {
		for _, c := range all {
			if got := settle(t, s, c, 0); got != want {
				t.Fatalf("settled: %v, want %v", got, want)
			}
		}
	}
	checkAccounts(t, s)
}

// What was refunded cannot be had again by repeating the request, nor refunded once it was
// repeated.
func TestRefundOfARepeatedRequest(t *testing.T) {
	s := newStore(t, Config{})
	r := stint.Request{
		Claims: []stint.Claim{{Subject: "a", Limits: []stint.Limit{stint.PerHour(10)}, Cost: 1}},
		ID:     "id",
	}
	first := take(t, s, r)
	if again := take(t, s, r); !again.Repeat {
		t.Fatal("not a repeat")
	}
	if settle(t, s, first.Charge, 0) || used(t, s, r.Claims[0])[0] != 1 {
		t.Error("refunded although it was repeated")
	}
	if !settle(t, s, first.Charge, 3) || used(t, s, r.Claims[0])[0] != 3 {
		t.Error("not settled to more")
	}
	r.ID = "other"
	once := take(t, s, r)
	if !settle(t, s, once.Charge, 0) || take(t, s, r).Repeat {
		t.Error("the id of a request that was refunded is still known")
	}
}

// Of those who wait, those behind one who gives up move up in their order.
func TestMovingUp(t *testing.T) {
	clock := newClock()
	s := newStore(t, Config{Now: clock.now})
	r := stint.Request{Claims: []stint.Claim{{
		Subject: "a", Limits: []stint.Limit{stint.PerSecond(1), stint.TokenBucket(1, 1, time.Second).WithName("n")},
		Cost: 1}}, Mode: stint.ModeReserve}
	grace := contract.Grace(&r)
	var waiting []stint.Decision
	for range 4 {
		waiting = append(waiting, take(t, s, r))
	}
	for i, d := range waiting {
		// One after the other, each place counted as if at the end of its grace.
		if want := time.Duration(i)*time.Second + time.Duration(max(i-1, 0))*grace; !d.Allowed ||
			d.RetryAfter != want {
			t.Errorf("the %d. waits for %v, want %v", i, d.RetryAfter, want)
		}
	}
	move := func(i int) stint.Decision {
		m := r
		m.Terms().Booked = waiting[i].Charge.Data()
		return take(t, s, m)
	}
	if d := move(3); d.Charge.Data().At != waiting[3].Charge.Data().At || d.RetryAfter != waiting[3].RetryAfter ||
		d.Usages()[0].Used != 1 {
		t.Errorf("moved to %v before anybody gave up", d.RetryAfter)
	}
	settle(t, s, waiting[1].Charge, 0)
	if d := move(3); d.Charge.Data().At != waiting[3].Charge.Data().At {
		t.Errorf("moved to %v, ahead of another", d.RetryAfter)
	}
	second := move(2)
	if second.RetryAfter != waiting[1].RetryAfter || second.Charge.Data().At != waiting[1].Charge.Data().At {
		t.Errorf("moved to %v, want %v", second.RetryAfter, waiting[1].RetryAfter)
	}
	if d := move(3); d.RetryAfter != waiting[2].RetryAfter {
		t.Errorf("then to %v, want %v", d.RetryAfter, waiting[2].RetryAfter)
	}
	if !settle(t, s, second.Charge, 0) || !slices.Equal(used(t, s, r.Claims[0]), []int64{2, 2}) {
		t.Errorf("used %v, want one and one booked", used(t, s, r.Claims[0]))
	}
	checkAccounts(t, s)
}

// Whatever happens, what is kept is what is accounted for.
func TestAccountsOfEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 20 {
		clock := newClock()
		s := newStore(t, Config{Now: clock.now})
		limits := []stint.Limit{stint.PerSecond(3), stint.PerMinute(300), stint.PerSecond(3).WithBurst(2),
			stint.PerSecond(20).WithName("n"),
			stint.TokenBucket(20, 5, time.Second), stint.TokenBucket(5, 5, time.Second).WithName("n"),
			stint.AtOnce(5, time.Second),
			{Max: 5, Window: time.Second, Algorithm: stint.AlgorithmFixed},
			stint.TokenBucket(7, 9, 2*time.Second).WithName("a longer name")}
		var charges []stint.Charge
		for range 500 {
			clock.advance(time.Duration(rng.Int64N(3e8)) - 2e7)
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
				reset(t, s, claim)
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
		clock.advance(time.Hour)
		s.Sweep()
		if s.Len() != 0 {
			t.Errorf("%d subjects are left", s.Len())
		}
	}
}

// To settle one claim rids the shard of the last state under the limit of another.
func TestSettleUnderALimitThatGoes(t *testing.T) {
	s := newStore(t, Config{MaxSubjects: 64}) // one shard
	under := func(subject string, most int64) stint.Claim {
		return stint.Claim{Subject: subject, Limits: []stint.Limit{stint.PerHour(most)}, Cost: 1}
	}
	d := take(t, s, stint.Request{Claims: []stint.Claim{under("b", 5), under("a", 4)}})
	take(t, s, stint.Request{Claims: []stint.Claim{under("b", 4)}})
	take(t, s, stint.Request{Claims: []stint.Claim{under("a", 6)}})
	if !settle(t, s, d.Charge, 0) || used(t, s, under("a", 4))[0] != 1 || used(t, s, under("b", 5))[0] != 1 {
		t.Error("want one of two left of each")
	}
	checkAccounts(t, s)
}
