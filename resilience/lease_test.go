package resilience

import (
	"fmt"
	"math"
	"strings"
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
		if err := (stint.Amendment{Kind: stint.AmendSettle}).Validate(&d.Charge); err != nil {
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
			c := stint.Command{Kind: stint.CommandBan, Subject: subject, For: d}
			if err := s.Command(t.Context(), c); err != nil {
				t.Fatal(err)
			}
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
		if !mustAmend(t, s, d.Charge.Part(0), stint.Amendment{Kind: stint.AmendSettle}).Changed {
			t.Error("not refunded")
		}
	})
}
