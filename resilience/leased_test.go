package resilience

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// The limits of a user, its team and its organization.
var (
	ofUser = stint.PerHour(20)
	ofTeam = leased(100_000, time.Hour)
	ofOrg  = leased(1_000_000, time.Hour)
)

// member is a request of a user, for its team and its organization too.
func member(user string, cost int64, limit stint.Limit) stint.Request {
	return and(and(ask(user, cost, limit), ask("team", cost, ofTeam)), ask("org", cost, ofOrg))
}

// leaseTeam has a stack lease units of a team and its organization. It returns what the team has used.
func leaseTeam(t *testing.T, s *Stack) (used int64) {
	t.Helper()
	// One after the other: requests that share a slot of the sketch may never be leased together.
	for subject, limit := range map[string]stint.Limit{"team": ofTeam, "org": ofOrg} {
		for s.leases.held(&ask(subject, 1, limit).Claims[0]) < 1500 {
			mustDecide(t, s, ask(subject, 500, limit))
			time.Sleep(time.Millisecond)
		}
	}
	return s.usedOfLease("team", ofTeam)
}

// usedOfLease is what was used of leased units of a subject.
func (s *Stack) usedOfLease(subject string, limit stint.Limit) int64 {
	b := s.leases.blockOf(&ask(subject, 1, limit).Claims[0])
	return b.usages[0].Used - b.units.Load()
}

// The store decides on the user alone. What the caller is told is what one call on all subjects
// would have told.
func TestAnswersOfAPart(t *testing.T) {
	over(t, leasing, func(t *testing.T, store *fake, s *Stack) {
		leaseTeam(t, s)
		whole := newFake(t) // decides on the same requests, in one call
		for subject, limit := range map[string]stint.Limit{"team": ofTeam, "org": ofOrg} {
			mustDecide(t, whole, ask(subject, s.usedOfLease(subject, limit), limit))
		}
		store.reply(func(c *driver.Call) {
			if claims := c.Request.Claims; c.Request.Terms().Lease == 0 && (len(claims) > 1 || claims[0].Subject[0] != 'u') {
				t.Errorf("the store was asked about %v", claims)
			}
		})
		chance, allowed, denied := rand.New(rand.NewPCG(1, 1)), 0, 0
		for n := range 300 {
			r := member(fmt.Sprint("user", chance.IntN(10)), 1+chance.Int64N(4), ofUser)
			if chance.IntN(4) == 0 { // two states of one subject
				r.Claims[0].Limits = append(r.Claims[0].Limits, ofUser.WithName("other"))
			}
			if chance.IntN(3) == 0 { // any order
				slices.Reverse(r.Claims)
			}
			got, want := mustDecide(t, s, r), mustDecide(t, whole, r)
			wantLike(t, n, &got, &want)
			if got.Allowed {
				allowed++
			} else {
				denied++
			}
			if got.Allowed && chance.IntN(3) == 0 {
				a := settleTo(chance.Int64N(3))
				if g, w := mustAmend(t, s, got.Charge, a), mustAmend(t, whole, want.Charge, a); g != w {
					t.Errorf("decision %d is settled: %+v, want %+v", n, g, w)
				}
				wantChange(t, s, got.Charge, settleTo(0), false)
			}
		}
		if allowed < 50 || denied < 50 {
			t.Errorf("%d allowed, %d denied", allowed, denied)
		}
		time.Sleep(3 * maxLease) // all blocks end
		for subject, limit := range map[string]stint.Limit{"team": ofTeam, "org": ofOrg} {
			wantUsed(t, store, subject, limit, usedOf(t, whole, subject, limit))
		}
	})
}

// wantLike holds a decision, a part of which was made from memory, to one that was made in one call.
// Leased units count until a window after the end of their block.
func wantLike(t *testing.T, n int, got, want *stint.Decision) {
	t.Helper()
	if got.Allowed != want.Allowed || got.Denier != want.Denier || got.RetryAfter != want.RetryAfter ||
		got.Degraded || got.Key() != want.Key() || got.Remaining() != want.Remaining() ||
		got.Charge.IsZero() != want.Charge.IsZero() || got.Decisive().Limit != want.Decisive().Limit {
		t.Fatalf("decision %d: %+v, want %+v", n, got, want)
	}
	for i, w := range want.States() {
		g := got.States()[i]
		if later := g.ResetAfter - w.ResetAfter; g.Used != w.Used || g.RetryAfter != w.RetryAfter || *g.Limit != *w.Limit ||
			later != 0 && (!g.Limit.Leased || later.Abs() > maxLease) {
			t.Fatalf("decision %d, limit %d: %+v, want %+v", n, i, g, w)
		}
	}
	if !got.Charge.IsZero() {
		if err := settleTo(0).Validate(&got.Charge); err != nil {
			t.Errorf("decision %d: %v", n, err)
		}
	}
}

// Units go back unless the caller is told that it is allowed: into their block, or to the store if
// that has ended meanwhile. What becomes of the user's request does not matter.
func TestAPartIsAllOrNothing(t *testing.T) {
	budget := stint.FailurePolicy{Budget: 50 * time.Millisecond}
	mode := func(m stint.FailureMode) *stint.FailurePolicy {
		p := budget
		p.Mode = m
		return &p
	}
	type row struct {
		ends    bool // the blocks do, while the store decides
		failure *stint.FailurePolicy
		cost    int64
		used    int64 // of the team by this request
	}
	each(t, map[string]row{
		"denied":                      {cost: 21},
		"denied, the blocks ended":    {cost: 21, ends: true},
		"allowed":                     {cost: 3, used: 3},
		"allowed, the blocks ended":   {cost: 3, used: 3, ends: true},
		"error":                       {cost: 3, failure: mode(stint.FailError)},
		"no answer, denied":           {cost: 3, failure: mode(stint.FailDeny)},
		"no answer, decided here":     {cost: 3, failure: mode(stint.FailLocal), used: 3},
		"no answer, allowed":          {cost: 3, failure: mode(stint.FailAllow), used: 3},
		"no answer, the blocks ended": {cost: 3, failure: mode(stint.FailDeny), ends: true},
	}, leasing, func(t *testing.T, store *fake, s *Stack, test row) {
		before := leaseTeam(t, s)
		store.hook(func(string) {
			if test.ends {
				s.leases.drop("")
			}
		})
		if test.failure != nil { // the store decides, and its answer is lost
			store.change(way{there: time.Millisecond, back: 3 * time.Second})
		}
		r := member("user", test.cost, ofUser)
		r.Failure = test.failure
		d, err := s.Take(t.Context(), r)
		if (err != nil) != (test.failure != nil && test.failure.Mode == stint.FailError) {
			t.Fatal(err)
		}
		if got := d.Allowed; got != (test.used > 0) {
			t.Errorf("allowed: %v", got)
		}
		store.up()
		time.Sleep(3 * maxLease)
		wantUsed(t, store, "team", ofTeam, before+test.used)
	})
}

// A reset of the organization while the store decides on the user: what was taken before it is gone,
// and what is put back does not count after it.
func TestAPartAndResets(t *testing.T) {
	for _, cost := range []int64{3, 21} {
		over(t, leasing, func(t *testing.T, store *fake, s *Stack) {
			leaseTeam(t, s)
			reset := false
			store.reply(func(c *driver.Call) {
				if c.Request.Claims[0].Subject == "user" && !reset {
					reset = true
					if err := s.Command(t.Context(), resetOf(ask("org", 1, ofOrg).Claims[0])); err != nil {
						t.Error(err)
					}
				}
			})
			if d := mustDecide(t, s, member("user", cost, ofUser)); d.Allowed != (cost == 3) {
				t.Errorf("allowed: %v", d.Allowed)
			}
			time.Sleep(3 * maxLease)
			wantUsed(t, store, "org", ofOrg, 0)
		})
	}
}

// A charge is settled where each of its claims was charged, once: in the blocks or, after their end,
// in the store. If it is passed on, any process does that.
func TestPartsSettle(t *testing.T) {
	type row struct {
		ended, elsewhere, fallback bool
		truth                      int64
	}
	each(t, map[string]row{
		"in the blocks":              {truth: 2},
		"to more":                    {truth: 9},
		"after the blocks":           {ended: true, truth: 2},
		"to more after the blocks":   {ended: true, truth: 9},
		"elsewhere":                  {elsewhere: true},
		"elsewhere after the blocks": {elsewhere: true, ended: true},
		"decided here":               {fallback: true, truth: 2},
		"decided here, refunded after the blocks":     {fallback: true, ended: true},
		"decided here, then more after the blocks":    {fallback: true, ended: true, truth: 9},
		"to more than the blocks have, and elsewhere": {elsewhere: true, truth: 90_000},
	}, leasing, func(t *testing.T, store *fake, s *Stack, test row) {
		before := leaseTeam(t, s)
		r := member("user", 5, ofUser)
		if test.fallback {
			r.Failure = &stint.FailurePolicy{}
			store.fail(storeError("unreachable"), opTake)
		}
		d := mustDecide(t, s, r)
		if data := d.Charge.Data(); !d.Allowed || data.Leased != 0b110 || data.Fallback != test.fallback {
			t.Fatalf("got %+v", d)
		}
		store.up()
		if test.ended {
			time.Sleep(3 * maxLease)
		}
		by, c := s, d.Charge
		if test.elsewhere {
			by = newStack(t, store, leasing)
			wantChange(t, by, c.Part(1, 2), settleTo(0), false) // which it was not given
			c.Data().Leased = 0
		}
		wantSettled(t, by, c, test.truth, true)
		for _, again := range []stint.Charge{c, c.Part(2), c.Part(0, 1)} {
			wantChange(t, by, again, settleTo(0), false)
		}
		time.Sleep(3 * maxLease)
		wantUsed(t, store, "user", ofUser, test.truth)
		wantUsed(t, store, "team", ofTeam, before+test.truth)
		wantChange(t, s, c, settleTo(0), false)
	})
}

// A request that costs nothing but leased units has a charge, also if the store fails.
func TestLeasedUnitsAloneAreCharged(t *testing.T) {
	cases := map[string]bool{"store up": false, "store down": true}
	each(t, cases, leasing, func(t *testing.T, store *fake, s *Stack, down bool) {
		before := leaseTeam(t, s)
		r := member("user", 5, ofUser)
		r.Claims[0].Cost, r.Failure = 0, &stint.FailurePolicy{}
		if down {
			store.fail(refusedCall())
		}
		d := mustDecide(t, s, r)
		if store.up(); !d.Allowed {
			t.Errorf("denied: %+v", d)
		}
		wantChange(t, s, d.Charge, settleTo(0), true)
		time.Sleep(3 * maxLease)
		wantUsed(t, store, "team", ofTeam, before)
	})
}

// What blocks can serve is a valid request: the store says what is wrong with others.
func TestLeasable(t *testing.T) {
	r := ask("org", 1, ofOrg)
	for n := range stint.MaxClaims {
		if !leasable(&r) {
			t.Errorf("%d claims are not leasable", n+1)
		}
		r = and(r, ask(fmt.Sprint("user", n), 1, ofUser))
	}
	if leasable(&r) {
		t.Error("more than MaxClaims are")
	}
	if r = and(ask("user", 1, ofUser), ask("team", 1, ofTeam)); !leasable(&r) {
		t.Error("a user and its team are not")
	}
	if r = and(r, ask("team", 1, leased(5, time.Minute))); leasable(&r) {
		t.Error("two claims of one subject are")
	}
}

// Costs by the names of limits are settled in the store, and end the block: a second settlement
// finds the first, in whatever form.
func TestLeasedCostsSettleOnce(t *testing.T) {
	cases := map[string]stint.Request{"alone": ask("team", 5, ofTeam), "with a user": member("user", 5, ofUser)}
	each(t, cases, leasing, func(t *testing.T, store *fake, s *Stack, r stint.Request) {
		before := leaseTeam(t, s)
		d := mustDecide(t, s, r)
		wantChange(t, s, d.Charge, stint.Amendment{Kind: stint.AmendSettle, Costs: stint.Costs{"": 2}}, true)
		wantChange(t, s, d.Charge, settleTo(0), false)
		time.Sleep(3 * maxLease)
		wantUsed(t, store, "team", ofTeam, before+2)
	})
}

// TestAllSubjectsFromMemory checks that a request asks no store if all of its subjects have blocks.
func TestAllSubjectsFromMemory(t *testing.T) {
	watch, c := &witness{}, leasing
	c.Observer = watch
	over(t, c, func(t *testing.T, store *fake, s *Stack) {
		leaseTeam(t, s)
		user, org := leased(1000, time.Hour), ask("org", 1, ofOrg).Claims[0]
		for s.leases.held(&ask("user", 1, user).Claims[0]) < 20 {
			mustDecide(t, s, ask("user", 10, user))
			time.Sleep(time.Millisecond)
		}
		held, before := s.leases.held(&org), watch.by(SourceLease)
		for range 3 {
			d := mustDecide(t, s, member("user", 2, user))
			if got := d.Charge.Data().Leased; got != 0b111 || d.Usages()[2].Used != d.States()[2].Used {
				t.Errorf("leased: %b", got)
			}
		}
		if got := held - s.leases.held(&org); got != 6 {
			t.Errorf("%d taken of the organization, want 6", got)
		}
		if n := watch.by(SourceLease) - before; n != 3 {
			t.Errorf("%d were observed as decided from memory, want 3", n)
		}
	})
}

// TestPartsAndPlaces checks that a place beside leased limits is kept and released in the store.
func TestPartsAndPlaces(t *testing.T) {
	over(t, leasing, func(t *testing.T, store *fake, s *Stack) {
		leaseTeam(t, s)
		r := and(ask("user", 1, stint.Concurrency(1, time.Minute)), ask("org", 1, ofOrg))
		d := mustDecide(t, s, r)
		if !d.Allowed || d.Charge.Data().Leased != 0b10 {
			t.Fatalf("got %+v", d)
		}
		wantChange(t, s, d.Charge, extend, true)
		wantAdmitted(t, s, 1, r, 0)
		wantChange(t, s, d.Charge, release, true)
		if d := mustDecide(t, s, r); !d.Allowed || contract.FromStore(&d.Charge) {
			t.Errorf("got %+v", d)
		}
	})
}

// TestDeniedRequestsLeaseNothing checks that requests that are denied by their user's own limit do
// not count as demand of the team.
func TestDeniedRequestsLeaseNothing(t *testing.T) {
	over(t, leasing, func(t *testing.T, store *fake, s *Stack) {
		leaseTeam(t, s)
		for range 6 {
			wantAdmitted(t, s, 1, member("mallory", 50_000, ofUser), 0)
			time.Sleep(time.Second) // so that a lease may be renewed in between
		}
		wantAdmitted(t, store, 1, ask("team", 80_000, ofTeam), 1)
	})
}

// TestOutageBesideLeases checks that what the store says of a user beside leased limits, namely its
// usage and its bans, is known when the store fails.
func TestOutageBesideLeases(t *testing.T) {
	cases := map[string]bool{"used up": false, "banned": true}
	each(t, cases, leasing, func(t *testing.T, store *fake, s *Stack, banned bool) {
		r := member("user", 20, ofUser)
		r.Failure = &stint.FailurePolicy{}
		r.Bans, r.Claims[1].Shared, r.Claims[2].Shared = &applyBans, true, true
		if banned {
			mustCommand(t, store.Store, stint.Command{Kind: stint.CommandBan, Subject: "user", For: time.Hour})
		}
		if d := mustDecide(t, s, r); d.Banned != banned || d.Allowed == banned { // of all three, in one call
			t.Fatalf("got %+v", d)
		}
		leaseTeam(t, s)
		store.fail(refusedCall())
		if d := mustDecide(t, s, r); d.Allowed || d.Banned != banned {
			t.Errorf("allowed %v, banned %v", d.Allowed, d.Banned)
		}
	})
}

// TestPartThenWhole checks that this process gives each unit back once if a part of a charge is
// settled, and then the whole.
func TestPartThenWhole(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		limit := stint.PerHour(10)
		d := mustDecide(t, s, and(ask("a", 5, limit), ask("b", 5, limit)))
		mustAmend(t, s, d.Charge.Part(0), settleTo(0))
		wantAdmitted(t, s, 1, ask("a", 10, limit), 1)
		mustAmend(t, s, d.Charge, settleTo(0))
		store.fail(refusedCall())
		wantAdmitted(t, s, 1, ask("a", 5, limit), 0)
		wantAdmitted(t, s, 1, ask("b", 10, limit), 1)
	})
}

// TestPartsOfACharge checks that settling a part of a charge leaves the other parts as they are.
func TestPartsOfACharge(t *testing.T) {
	for _, cost := range []int64{0, 20} {
		over(t, alone, func(t *testing.T, store *fake, s *Stack) {
			place, hour := stint.Concurrency(2, time.Minute), stint.PerHour(10)
			r := and(oneUnit("a", place, hour), ask("a", 5, stint.PerDay(100).WithName("budget")))
			d := mustDecide(t, s, r)
			wantOnce(t, s, d.Charge.Part(1), settleTo(cost), true)
			store.fail(refusedCall())
			wantUsed(t, s, "a", place, 1)
			wantUsed(t, s, "a", hour, 1)
			wantAdmitted(t, s, 5, r, 1)
		})
	}
}

// TestRefundOfAnOlderUnit checks that a refund takes off the unit that it is about, and not a newer
// unit that was granted in the same part of the window: the newer unit would leave its window too
// early.
func TestRefundOfAnOlderUnit(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		r := oneUnit("a", stint.PerHour(100))
		store.down()
		first := mustDecide(t, s, r)
		time.Sleep(3 * time.Minute) // meanwhile the unit has become a debt
		mustDecide(t, s, r)
		wantOnce(t, s, first.Charge, settleTo(0), true)
		store.up()
		time.Sleep(5 * time.Second)
		if u := usageOf(t, store, "a", stint.PerHour(100)); u.Used != 1 || u.ResetAfter < time.Hour-10*time.Second {
			t.Errorf("%d used, fully reset in %v, want the unit of 5 s ago", u.Used, u.ResetAfter)
		}
	})
}

// TestShareAndSettlements checks that settlements count in the share of a process.
func TestShareAndSettlements(t *testing.T) {
	over(t, among(2), func(t *testing.T, store *fake, s *Stack) {
		store.fail(refusedCall())
		total := 0
		for range 20 {
			if d := mustDecide(t, s, oneUnit("a", stint.PerHour(20))); d.Allowed {
				mustAmend(t, s, d.Charge, settleTo(2))
				total += 2
			}
		}
		if total != 10 {
			t.Errorf("%d units by one of two processes under 20", total)
		}
	})
}

// TestSettledApart checks that the quantities of one claim, and the claims of one subject, are
// settled separately, and each once, whether or not the store is available.
func TestSettledApart(t *testing.T) {
	in, out := stint.PerDay(1000).WithName("in"), stint.PerDay(1000).WithName("out")
	quantities := held(ask("a", 100, in, out))
	claims := held(and(ask("a", 100, in), ask("a", 100, out)))
	for kind, r := range map[string]stint.Request{"quantities": quantities, "claims": claims} {
		for _, byStore := range []bool{true, false} {
			t.Run(fmt.Sprint(kind, ", granted by the store ", byStore), func(t *testing.T) {
				each(t, failures, alone, func(t *testing.T, store *fake, s *Stack, fail func(*fake)) {
					mustDecide(t, s, ask("a", 10, in, out))
					if !byStore {
						fail(store)
					}
					d := mustDecide(t, s, r)
					fail(store)
					for i, costs := range []stint.Costs{{"in": 30}, {"out": 150}} {
						c := d.Charge
						if kind == "claims" {
							c = c.Part(i)
						}
						wantOnce(t, s, c, stint.Amendment{Kind: stint.AmendSettle, Costs: costs}, true)
					}
					now := mustDecide(t, s, peek(ask("a", 1, in, out)))
					if u := now.Usages(); now.Degraded && (u[0].Used < 40 || u[0].Used > 110 || u[1].Used != 160) {
						t.Errorf("without the store: %+v used, want 40 to 110, and 160", u)
					}
					time.Sleep(time.Second)
					store.up()
					time.Sleep(10 * time.Second)
					wantUsed(t, store, "a", in, 40)
					wantUsed(t, store, "a", out, 160)
				})
			})
		}
	}
}
