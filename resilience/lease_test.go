package resilience

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/keypart"
)

// leasing is a configuration in which what leases do not serve is asked of the store.
var leasing = Config{Instances: 1, NoDenyCache: true, BreakerFailures: math.MaxInt, Failure: patient}

func leased(max int64, window time.Duration) stint.Limit { return stint.Per(max, window).WithLease() }

func fromLease(d stint.Decision) bool { return d.Allowed && d.Charge.Data().Leased != 0 }

// leaseStarted asks, every so often, until a decision comes from memory.
func leaseStarted(t testing.TB, s stint.Store, r stint.Request, every time.Duration) stint.Decision {
	t.Helper()
	for range 1000 {
		if d := mustDecide(t, s, r); fromLease(d) {
			return d
		}
		time.Sleep(every)
	}
	t.Fatal("nothing was leased")
	return stint.Decision{}
}

// holding has a stack lease at least twenty units of a subject "a", and returns a request for one
// of them.
func holding(t *testing.T, s *Stack, limit stint.Limit) stint.Request {
	t.Helper()
	r := ask("a", 10, limit)
	for i := 0; s.leases.held(&r.Claims[0]) < 20; i++ {
		if i > 100 {
			t.Fatal("not leased")
		}
		mustDecide(t, s, r)
		synctest.Wait()
	}
	return ask("a", 1, limit)
}

// count is how many leases there are.
func (l *leases) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.count
}

// blockOf returns the block of a lease, or nil.
func (l *leases) blockOf(c *stint.Claim) *leaseBlock {
	if ls := l.table.find(l.hash(c, false), c, false); ls != nil {
		return ls.block.Load()
	}
	return nil
}

// held is what a lease has in stock.
func (l *leases) held(c *stint.Claim) int64 {
	if b := l.blockOf(c); b != nil {
		return b.units.Load()
	}
	return 0
}

// The timer of the block before may run when the next block has just come. It renews nothing.
func TestTimerOfABlockThatIsGone(t *testing.T) {
	over(t, leasing, func(t *testing.T, store *fake, s *Stack) {
		holding(t, s, leased(1000, 10*time.Second))
		for ls := range s.leases.table.all() {
			ls.missed.Add(100) // a renewal would ask for units
			s.leases.tend(ls)
		}
		before := store.leases.Load()
		if synctest.Wait(); store.leases.Load() != before {
			t.Error("the new block is renewed at once")
		}
		time.Sleep(499 * time.Millisecond)
		if store.leases.Load() == before {
			t.Error("the new block is not renewed before its end")
		}
	})
}

// The first requests cost no more than without leases, and the first block not more than is wanted.
func TestLeasesBegin(t *testing.T) {
	over(t, leasing, func(t *testing.T, store *fake, s *Stack) {
		store.change(way{there: 5 * time.Millisecond, back: 5 * time.Millisecond})
		r := ask("a", 1, leased(1000, 10*time.Second))
		for range 5 { // too rarely to be leased
			mustDecide(t, s, r)
			time.Sleep(600 * time.Millisecond)
		}
		if n := store.leases.Load(); n != 0 {
			t.Fatalf("%d blocks for one request in 600 ms", n)
		}
		mustDecide(t, s, r)
		d := leaseStarted(t, s, r, 100*time.Millisecond)
		store.mu.Lock()
		asked := store.lease
		store.mu.Unlock()
		if asked.Terms().Lease != 500*time.Millisecond || asked.Claims[0].Cost > 20 || asked.Bans != nil {
			t.Errorf("asked for %+v", asked)
		}
		if used := usedOf(t, store, "a", r.Claims[0].Limits[0]); d.Usages()[0].Used > used ||
			d.Usages()[0].Used < 1 || d.Usages()[0].ResetAfter > 11*time.Second {
			t.Errorf("the decision says %+v, the store %d", d.Usages(), used)
		}
		if err := settleTo(0).Validate(&d.Charge); err != nil {
			t.Error(err)
		}
	})
}

func TestLeaseLength(t *testing.T) {
	for _, c := range []struct{ window, roundTrip, want time.Duration }{
		{10 * time.Second, time.Millisecond, 500 * time.Millisecond},
		{10 * time.Second, 200 * time.Millisecond, 800 * time.Millisecond},
		{time.Minute, 0, 3 * time.Second},
		{10 * time.Minute, 0, 30 * time.Second},
		{24 * time.Hour, 0, time.Minute},
		{100 * time.Millisecond, 0, 20 * time.Millisecond},
		{time.Second, 200 * time.Millisecond, 500 * time.Millisecond},
		{time.Millisecond, 0, 500 * time.Microsecond},
	} {
		ls := newLease(0, &stint.Claim{Limits: []stint.Limit{stint.PerDay(1), stint.Per(1, c.window)}}, false)
		if got := ls.length(c.roundTrip); got != c.want {
			t.Errorf("window %v, %v away: %v, want %v", c.window, c.roundTrip, got, c.want)
		}
	}
}

// Every request but a plain take of a subject whose limits are all leased goes to the store.
func TestRequestsThatPassLeasesBy(t *testing.T) {
	each(t, map[string]func(*stint.Request){
		"a limit that is not leased": func(r *stint.Request) {
			r.Claims[0].Limits = append(r.Claims[0].Limits, stint.PerHour(1_000_000))
		},
		"an id": func(r *stint.Request) { r.ID = "x" },
		"its subject twice": func(r *stint.Request) {
			*r = and(*r, ask("a", 1, stint.PerHour(1_000_000)))
		},
		"a peek":        func(r *stint.Request) { r.Mode = stint.ModePeek },
		"a reservation": func(r *stint.Request) { r.Mode = stint.ModeReserve },
		"a force":       func(r *stint.Request) { r.Mode = driver.ModeForce },
		"no cost":       func(r *stint.Request) { r.Claims[0].Cost = 0 },
		"fit":           func(r *stint.Request) { r.Terms().Fit = true },
		"a lease":       func(r *stint.Request) { r.Terms().Lease = time.Second },
	}, leasing, func(t *testing.T, store *fake, s *Stack, change func(*stint.Request)) {
		r := holding(t, s, leased(1_000_000, time.Minute))
		change(&r)
		before := len(store.batches())
		for range 20 {
			if d := mustDecide(t, s, r); !contract.FromStore(&d.Charge) {
				t.Fatal("served from memory")
			}
		}
		if n := len(store.batches()) - before; n < 20 {
			t.Errorf("%d of 20 reached the store", n)
		}
	})
}

// A block ends by the wall clock and by the monotonic one, whichever is first.
func TestLeasesEndByBothClocks(t *testing.T) {
	const d = 500 * time.Millisecond
	const life = d - d/1024
	type row struct {
		wall, mono time.Duration
		served     bool
	}
	each(t, map[string]row{
		"nothing happened":      {0, 0, true},
		"just before the end":   {d - d/1000 - 1000, d - d/1000 - 1000, true},
		"the end":               {d - d/1024, d - d/1024, false},
		"suspended":             {time.Hour, 0, false},
		"set back":              {-time.Hour, d, false},
		"set back a moment ago": {-time.Hour, d / 2, true},
		"set forward":           {time.Hour, d / 2, false},
	}, leasing, func(t *testing.T, store *fake, s *Stack, test row) {
		r := holding(t, s, leased(10_000, 10*time.Second))
		b, now := s.leases.blockOf(&r.Claims[0]), s.leases.now()
		b.end = leaseTime{wall: now.wall + int64(life-test.wall), mono: now.mono + int64(life-test.mono)}
		if d := mustDecide(t, s, r); fromLease(d) != test.served {
			t.Errorf("from memory: %v, want %v", fromLease(d), test.served)
		}
	})
}

// What was not used is given back: when its block ends, and at Close. A block that arrives after
// its end serves nobody, and is given back too.
func TestLeasesGiveBack(t *testing.T) {
	over(t, leasing, func(t *testing.T, store *fake, s *Stack) {
		limit := leased(10_000, 10*time.Second)
		used := int64(0)
		for i, s := range []*Stack{s, newStack(t, store, leasing), newStack(t, store, leasing)} {
			for range 100 * (i + 1) {
				wantAdmitted(t, s, 1, ask("a", 1, limit), 1)
				used++
				time.Sleep(3 * time.Millisecond)
			}
		}
		if n := usedOf(t, store, "a", limit); n <= used {
			t.Fatalf("the store counts %d, want more than %d", n, used)
		}
		time.Sleep(1100 * time.Millisecond) // the last may have been renewed once more
		wantUsed(t, store, "a", limit, used)

		store.reply(func(c *driver.Call) {
			if c.Request.Terms().Lease > 0 {
				time.Sleep(700 * time.Millisecond)
			}
		})
		wantAdmitted(t, s, 2, ask("b", 1, limit), 2)
		time.Sleep(690 * time.Millisecond)
		if n := usedOf(t, store, "b", limit); n <= 2 {
			t.Fatal("nothing was leased")
		}
		time.Sleep(20 * time.Millisecond)
		if fromLease(mustDecide(t, s, ask("b", 1, limit))) {
			t.Error("served after the end")
		}
		time.Sleep(5 * time.Second)
		wantUsed(t, store, "b", limit, 3)

		store.reply(nil)
		used = 1
		for ; !fromLease(mustDecide(t, s, ask("c", 1, limit))); used++ {
			time.Sleep(time.Millisecond)
		}
		if err := s.Close(); err != nil || s.leases.count() != 0 {
			t.Errorf("%d leases after Close, %v", s.leases.count(), err)
		}
		wantUsed(t, store, "c", limit, used)
	})
}

// There are so many leases at most. Those without requests end.
func TestIdleLeases(t *testing.T) {
	c := leasing
	c.Leases = 5
	over(t, c, func(t *testing.T, store *fake, s *Stack) {
		limit := leased(1000, 10*time.Second)
		for i := range 10 {
			for range 20 {
				mustDecide(t, s, ask(fmt.Sprint(i), 1, limit))
				time.Sleep(time.Millisecond)
			}
		}
		if n := s.leases.count(); n != 5 {
			t.Errorf("%d leases, want 5", n)
		}
		time.Sleep(3 * time.Second)
		if n := s.leases.count(); n != 0 {
			t.Errorf("%d leases are left", n)
		}
		for i := range 10 {
			wantUsed(t, store, fmt.Sprint(i), limit, 20)
		}
		leaseStarted(t, s, ask("9", 1, limit), time.Millisecond)
	})
}

// A ban ends a lease: at once if it is made here or announced, else when the block ends. Units that
// were leased by those whom bans concern are theirs alone.
func TestLeasesAndBans(t *testing.T) {
	over(t, leasing, func(t *testing.T, store *fake, s *Stack) {
		limit := leased(1000, 10*time.Second)
		request := func(subject string) stint.Request {
			r := ask(subject, 1, limit)
			r.Bans = banAfter(2, time.Minute)
			return r
		}
		ban := func(s stint.Store, subject string, d time.Duration) {
			t.Helper()
			mustCommand(t, s, stint.Command{Kind: stint.CommandBan, Subject: subject, For: d})
		}
		r := request("a")
		leaseStarted(t, s, r, time.Millisecond)
		store.mu.Lock()
		if store.lease.Bans == nil || store.lease.Bans.After != 0 {
			t.Errorf("a renewal has the ban policy %+v, want one that only applies bans", store.lease.Bans)
		}
		store.mu.Unlock()
		shared := request("a")
		shared.Claims[0].Shared = true
		for _, other := range []stint.Request{ask("a", 1, limit), shared} {
			if fromLease(mustDecide(t, s, other)) {
				t.Error("whom bans do not concern is served from units of those whom they do")
			}
		}
		ban(s, "a", time.Second)
		if !mustDecide(t, s, r).Banned {
			t.Error("served although banned here")
		}
		time.Sleep(2 * time.Second)
		leaseStarted(t, s, r, time.Millisecond)
		ban(store.Store, "a", time.Minute)
		for start := time.Now(); !mustDecide(t, s, r).Banned; time.Sleep(time.Millisecond) {
			if time.Since(start) > 500*time.Millisecond {
				t.Fatal("served although banned elsewhere, for longer than a lease")
			}
		}
		if n := s.leases.count(); n != 0 {
			t.Errorf("%d leases: that of a banned subject is kept", n)
		}
		long := "user:" + strings.Repeat("名", 15) // it is announced by its hash
		for subject, name := range map[string]string{"b": "b", long: string(keypart.Append(nil, long, true))} {
			leaseStarted(t, s, request(subject), time.Millisecond)
			ban(store.Store, subject, time.Minute)
			s.drop(name+"2", true)
			if !fromLease(mustDecide(t, s, request(subject))) {
				t.Error("what is announced of another subject ended a lease")
			}
			s.drop(name, true)
			if !mustDecide(t, s, request(subject)).Banned {
				t.Error("served although a ban was announced")
			}
		}
		if s.drop("", true); s.leases.count() != 0 {
			t.Errorf("%d leases after all were dropped", s.leases.count())
		}

		// Bans do not concern a shared subject, nor those who do not look for them: they share.
		shared = request("c")
		shared.Claims[0].Shared = true
		ban(store.Store, "c", time.Hour)
		leaseStarted(t, s, shared, time.Millisecond)
		d := mustDecide(t, s, ask("c", 1, limit))
		if !fromLease(d) || !mustDecide(t, s, request("c")).Banned {
			t.Error("those whom a ban does not concern are not served, or those whom it does are")
		}
		wantChange(t, s, d.Charge.Part(0), settleTo(0), true)
	})
}

// TestLeasesSettle checks that a charge from memory is settled in its block, once, and only by the
// process that made it. If a raise is more than the block has left, the block ends and the store is
// charged with the raise.
func TestLeasesSettle(t *testing.T) {
	limit := leased(10_000, 10*time.Second)
	over(t, leasing, func(t *testing.T, store *fake, s *Stack) {
		r := holding(t, s, limit)
		held := s.leases.held(&r.Claims[0])
		check := func(want int64) {
			t.Helper()
			if got := held - s.leases.held(&r.Claims[0]); got != want {
				t.Errorf("%d taken from the block, want %d", got, want)
			}
		}
		eight := mustDecide(t, s, ask("a", 8, limit)).Charge
		check(8)
		wantSettled(t, s, eight, 3, true)
		check(3)
		wantSettled(t, s, eight, 0, false)
		one := mustDecide(t, s, r).Charge
		wantSettled(t, s, one, 0, true)
		wantSettled(t, s, one, 5, false)
		more := mustDecide(t, s, r).Charge
		wantSettled(t, s, more, 5, true)
		check(8)
		for _, a := range []stint.Amendment{extend, release} {
			wantChange(t, s, more, a, false)
		}
		if _, err := s.Amend(t.Context(), more, settleTo(-1)); err == nil {
			t.Error("settled to less than nothing")
		}
		wantSettled(t, newStack(t, store, leasing), mustDecide(t, s, r).Charge, 0, false)
		raised, charged := mustDecide(t, s, r).Charge, usedOf(t, store, "a", limit)
		wantSettled(t, s, raised, s.leases.held(&r.Claims[0])+101, true)
		check(held) // the block has ended
		time.Sleep(time.Second)
		wantUsed(t, store, "a", limit, charged+100)
		wantSettled(t, s, raised, 0, false)

		// A charge from a block of limits with different names has the generations of all states.
		named := ask("b", 1, limit, limit.WithName("other"))
		wantSettled(t, s, leaseStarted(t, s, named, 10*time.Millisecond).Charge, 0, true)
	})
}

// TestLeasesSettleAfterTheBlock checks that a charge from a block that has ended is settled in the
// store, once, and only by the process that made it.
func TestLeasesSettleAfterTheBlock(t *testing.T) {
	limit := leased(10_000, 10*time.Second)
	over(t, leasing, func(t *testing.T, store *fake, s *Stack) {
		holding(t, s, limit)
		r := ask("a", 8, limit)
		charged := func() stint.Charge { return mustDecide(t, s, r).Charge }
		inBlock, less, more := charged(), charged(), charged()
		wantSettled(t, s, inBlock, 3, true)
		time.Sleep(time.Second)
		used := usedOf(t, store, "a", limit)
		wantSettled(t, newStack(t, store, leasing), more, 20, false)
		wantSettled(t, s, inBlock, 30, false)
		wantSettled(t, s, less, 2, true)
		wantSettled(t, s, more, 5000, true)
		wantSettled(t, s, less, 6000, false)
		wantSettled(t, s, more, 6000, false)
		wantUsed(t, store, "a", limit, used-6+4992)
	})
}

// TestLeasesAndResets checks that the whole limit is available after a reset, but only once,
// whichever process held units before. A reset ends no lease of another scope.
func TestLeasesAndResets(t *testing.T) {
	over(t, leasing, func(t *testing.T, store *fake, s *Stack) {
		limit := leased(1000, time.Hour)
		r, scoped := ask("a", 1, limit), ask("a", 1, limit)
		scoped.Claims[0].Scope = "s"
		elsewhere := newStack(t, store, leasing)
		leaseStarted(t, s, r, time.Millisecond)
		leaseStarted(t, elsewhere, r, time.Millisecond)
		leaseStarted(t, s, scoped, time.Millisecond)
		mustCommand(t, s, resetOf(r.Claims[0]))
		wantUsed(t, store, "a", limit, 0)
		if !fromLease(mustDecide(t, s, scoped)) {
			t.Error("a reset ended the lease of another scope")
		}
		elsewhere.drop("a", true)
		if n := admitted(t, s, 700, r) + admitted(t, elsewhere, 700, r); n > 1000 {
			t.Errorf("%d admitted after a reset, want at most 1000", n)
		}
	})
}

// TestLeasesAreNotGivenBack checks that a command to give back units leaves the unused units of a
// lease alone, both in this process and in the store.
func TestLeasesAreNotGivenBack(t *testing.T) {
	limit := leased(100, 10*time.Second)
	over(t, leasing, func(t *testing.T, store *fake, s *Stack) {
		r := holding(t, s, limit)
		held, used := s.leases.held(&r.Claims[0]), usedOf(t, store, "a", limit)
		time.Sleep(time.Microsecond)
		mustCommand(t, s, stint.Command{Kind: stint.CommandGiveBack, Subject: "a",
			Limits: r.Claims[0].Limits, Units: stint.MaxUnits})
		if got := s.leases.held(&r.Claims[0]); got != held {
			t.Errorf("%d held, want %d as before", got, held)
		}
		if got := usedOf(t, store, "a", limit); got < held || got >= used {
			t.Errorf("%d used, want at least the %d that are held and fewer than %d", got, held, used)
		}
	})
}

// TestLeasesCutOff checks that a process that cannot reach the store serves the units that it has,
// then fails, and tries to renew its lease a few times a second.
func TestLeasesCutOff(t *testing.T) {
	over(t, leasing, func(t *testing.T, store *fake, s *Stack) {
		r := ask("a", 1, leased(10_000, 10*time.Second))
		for range 200 {
			mustDecide(t, s, r)
			time.Sleep(5 * time.Millisecond)
		}
		store.down()
		cut, hits := time.Now(), 0
		for ; ; hits++ {
			d, err := s.Take(t.Context(), r)
			if err != nil {
				break
			}
			if !fromLease(d) {
				t.Fatal("not from memory")
			}
			time.Sleep(5 * time.Millisecond)
		}
		if took := time.Since(cut); hits < 10 || took > 500*time.Millisecond {
			t.Errorf("%d served in %v", hits, took)
		}
		before := store.leases.Load()
		for range 100 {
			if _, err := s.Take(t.Context(), r); !errors.Is(err, errDown) {
				t.Fatalf("served without a store: %v", err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := store.leases.Load() - before; n < 2 || n > 10 {
			t.Errorf("%d renewals were tried in a second", n)
		}
		store.up()
		time.Sleep(time.Second)
		leaseStarted(t, s, r, 5*time.Millisecond)
	})
}

// If a limit is full when a block is renewed, the units that are left stay in use.
func TestRenewalsOfAFullLimit(t *testing.T) {
	over(t, leasing, func(t *testing.T, store *fake, s *Stack) {
		const pace = 5 * time.Millisecond
		store.change(way{there: 40 * time.Millisecond, back: 40 * time.Millisecond})
		limit := leased(2000, 10*time.Second)
		others := func(left int64) { mustDecide(t, store, ask("a", 2000-left-usedOf(t, store, "a", limit), limit)) }
		r := oneUnit("a", limit)
		others(900) // beyond half of a limit, a block is smaller
		for range 200 {
			mustDecide(t, s, r)
			time.Sleep(pace)
		}
		var full atomic.Bool
		before := store.leases.Load()
		store.hook(func(string) {
			if store.leases.Load() > before && full.CompareAndSwap(false, true) {
				others(3)
			}
		})
		for !full.Load() {
			mustDecide(t, s, r)
			time.Sleep(pace)
		}
		served := 0
		for fromLease(mustDecide(t, s, r)) {
			served++
			time.Sleep(pace)
		}
		if served < 30 { // the renewal itself takes 16
			t.Errorf("%d requests served after the limit became full", served)
		}
	})
}

// farAway is a fake whose amendments take as long as its decisions.
type farAway struct{ *fake }

func (f farAway) AmendBatch(ctx context.Context, batch []*driver.AmendCall) {
	time.Sleep(f.there)
	f.fake.AmendBatch(ctx, batch)
	time.Sleep(f.back)
}

// Three regions far from the store use 90% of a limit together, at random moments. Almost all of
// their requests are served from memory: all but those before the first block comes, and a few when
// chance fills the limit.
func TestLeasesInRegions(t *testing.T) {
	const rounds, span = 5, 40 * time.Second
	limit, all, asked := leased(3000, 10*time.Second), 0, 0
	for round := range uint64(rounds) {
		synctest.Test(t, func(t *testing.T) {
			home := newFake(t)
			var mu sync.Mutex
			var callers sync.WaitGroup
			for i := range uint64(3) {
				far := &fake{Store: home.Store, errs: map[string]error{}}
				far.change(way{there: 40 * time.Millisecond, back: 40 * time.Millisecond})
				s, chance := newStack(t, farAway{far}, leasing), rand.New(rand.NewPCG(round, i))
				take := func() {
					d := mustDecide(t, s, oneUnit("a", limit))
					mu.Lock()
					defer mu.Unlock()
					if all++; !fromLease(d) {
						asked++
					}
				}
				callers.Go(func() {
					for until := time.Now().Add(span); time.Now().Before(until); {
						time.Sleep(time.Duration(chance.ExpFloat64() / 90 * float64(time.Second)))
						callers.Go(take)
					}
				})
			}
			callers.Wait()
		})
	}
	if float64(asked) > 0.008*float64(all) {
		t.Errorf("%d of %d requests went to the store, %.2f%%", asked, all, 100*float64(asked)/float64(all))
	}
}

// TestLeasesAreNeverOver checks that several processes with leases never admit more than a limit
// allows in any window. Their distances from the store, requests, outages and refunds are random.
func TestLeasesAreNeverOver(t *testing.T) {
	type event struct{ at, cost int64 }
	fixed := func(max int64) stint.Limit {
		return stint.Limit{Max: max, Window: time.Second, Algorithm: stint.AlgorithmFixed, Leased: true}
	}
	hits, all := 0, 0
	for round, limits := range [][]stint.Limit{
		{leased(20, time.Second)},
		{leased(400, time.Second)},
		{leased(30, time.Second).BurstTimes(3), leased(500, 20*time.Second)},
		{fixed(100)},
		{leased(2000, 10*time.Second), fixed(300)},
	} {
		over(t, leasing, func(t *testing.T, store *fake, _ *Stack) {
			chance := rand.New(rand.NewPCG(uint64(round), 7))
			var mu sync.Mutex
			log := map[*event]bool{}
			var processes, callers sync.WaitGroup
			for range 1 + chance.IntN(4) {
				far := &fake{Store: store.Store, errs: map[string]error{}}
				trip := time.Duration(chance.IntN(50)) * time.Millisecond
				far.change(way{there: trip, back: trip})
				s := newStack(t, far, leasing)
				own := rand.New(rand.NewPCG(chance.Uint64(), 7))
				rate := float64(limits[0].Max) / limits[0].Window.Seconds() * own.Float64() * 1.5
				take := func(cost int64, refund bool, now int64) {
					d, err := s.Take(context.Background(), ask("a", cost, limits...))
					if err != nil || !d.Allowed {
						return
					}
					e := &event{d.Charge.Data().At, cost}
					if fromLease(d) {
						e.at = now
					}
					mu.Lock()
					defer mu.Unlock()
					all++
					if log[e] = true; !fromLease(d) {
						return
					}
					if hits++; refund && mustAmend(t, s, d.Charge, settleTo(0)).Changed {
						delete(log, e)
					}
				}
				processes.Go(func() {
					down := false
					for until := time.Now().Add(8 * time.Second); time.Now().Before(until); {
						time.Sleep(time.Duration(own.ExpFloat64() / rate * float64(time.Second)))
						switch own.IntN(2000) {
						case 0:
							if down = !down; down {
								far.down()
							} else {
								far.fail(nil)
							}
						case 1:
							s.drop("a", true)
						}
						cost, refund, now := 1+own.Int64N(3), own.IntN(10) == 0, time.Now().UnixMicro()
						callers.Go(func() { take(cost, refund, now) })
					}
				})
			}
			processes.Wait()
			callers.Wait()
			events := slices.SortedFunc(maps.Keys(log), func(a, b *event) int { return cmp.Compare(a.at, b.at) })
			for _, limit := range limits {
				span, sum, first := limit.Window.Microseconds(), int64(0), 0
				for _, e := range events {
					sum += e.cost
					for limit.Algorithm == stint.AlgorithmFixed && events[first].at/span != e.at/span ||
						limit.Algorithm == stint.AlgorithmSliding && events[first].at <= e.at-span {
						sum -= events[first].cost
						first++
					}
					if sum > limit.Capacity() {
						t.Fatalf("seed %d, %s: %d in one window", round, &limit, sum)
					}
				}
			}
		})
	}
	if hits < all/4 {
		t.Errorf("%d of %d were admitted from memory, so hardly anything was tested", hits, all)
	}
}
