package resilience

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/storetest"
)

// leaseFar is a store at a distance, that can be cut off, and counts what reaches it.
type leaseFar struct {
	stint.Store
	roundTrip time.Duration
	late      time.Duration // answers to renewals are that much slower
	down      atomic.Bool

	takes, renewals, amends atomic.Int64

	mu   sync.Mutex
	last stint.Request // that was a renewal
}

var errLeaseCut = &stint.StoreError{Op: "take", Kind: stint.KindUnreachable, Err: errors.New("cut off")}

func (f *leaseFar) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if r.Lease > 0 {
		f.renewals.Add(1)
		f.mu.Lock()
		f.last = r
		f.mu.Unlock()
	} else {
		f.takes.Add(1)
	}
	time.Sleep(f.roundTrip / 2)
	if f.down.Load() {
		return stint.Decision{}, errLeaseCut
	}
	d, err := f.Store.Take(ctx, r)
	time.Sleep(f.roundTrip / 2)
	if r.Lease > 0 {
		time.Sleep(f.late)
	}
	return d, err
}

func (f *leaseFar) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	f.amends.Add(1)
	time.Sleep(f.roundTrip / 2)
	if f.down.Load() {
		return false, errLeaseCut
	}
	ok, err := f.Store.Amend(ctx, c, a)
	time.Sleep(f.roundTrip / 2)
	return ok, err
}

func newLeaseFar(t testing.TB, roundTrip time.Duration) *leaseFar {
	s, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &leaseFar{Store: s, roundTrip: roundTrip}
}

func newLeasesFor(t testing.TB, inner stint.Store, c LeasesConfig) *Leases {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	l := NewLeases(inner, c)
	t.Cleanup(func() { l.Close() })
	return l
}

func leaseAsk(subject string, cost int64, limits ...stint.Limit) stint.Request {
	return stint.Request{Claim: stint.Claim{Subject: subject, Limits: limits, Cost: cost}}
}

// leaseUsed is what the store itself counts.
func leaseUsed(t testing.TB, s stint.Store, subject string, l stint.Limit) int64 {
	t.Helper()
	r := leaseAsk(subject, 1, l)
	r.Mode = stint.Peek
	d, err := s.Take(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return d.Usages()[0].Used
}

func mustLease(t testing.TB, s stint.Store, r stint.Request) stint.Decision {
	t.Helper()
	d, err := s.Take(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func fromLease(d stint.Decision) bool { return d.Allowed && d.Charge.Origin() == stint.FromLease }

// leaseStarted asks, every so often, until a decision comes from memory.
func leaseStarted(t testing.TB, s stint.Store, r stint.Request, every time.Duration) stint.Decision {
	t.Helper()
	for range 1000 {
		if d := mustLease(t, s, r); fromLease(d) {
			return d
		}
		time.Sleep(every)
	}
	t.Fatal("nothing was leased")
	return stint.Decision{}
}

// leaseAll marks every limit leased that can be.
type leaseAll struct{ stint.Store }

func (s leaseAll) mark(limits []stint.Limit) []stint.Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		limits[i].Leased = limits[i].Algorithm == stint.Sliding || limits[i].Algorithm == stint.Fixed
	}
	return limits
}

func (s leaseAll) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	r.Limits = s.mark(r.Limits)
	r.And = slices.Clone(r.And)
	for i := range r.And {
		r.And[i].Limits = s.mark(r.And[i].Limits)
	}
	return s.Store.Take(ctx, r)
}

func (s leaseAll) Command(ctx context.Context, c stint.Command) error {
	c.Limits = s.mark(c.Limits)
	return s.Store.Command(ctx, c)
}

func TestLeasesContract(t *testing.T) {
	for _, leased := range []bool{false, true} {
		t.Run(fmt.Sprintf("leased=%v", leased), func(t *testing.T) {
			storetest.Run(t, storetest.NeverOver, func(t *testing.T) storetest.Harness {
				clock := storetest.NewClock()
				s, err := memorystore.New(memorystore.Config{Now: clock.Now})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				l := newLeasesFor(t, s, LeasesConfig{})
				var mono atomic.Int64
				l.clock = func() leaseTime {
					wall := clock.Now().UnixNano()
					for old := mono.Load(); old < wall && !mono.CompareAndSwap(old, wall); old = mono.Load() {
					}
					return leaseTime{wall: wall, mono: mono.Load()}
				}
				h := storetest.Harness{Store: l, Clock: clock}
				if leased {
					h.Store = leaseAll{l}
				}
				return h
			})
		})
	}
}

func TestLeasesPassBy(t *testing.T) {
	leased := stint.PerMinute(1_000_000).WithLease()
	for name, change := range map[string]func(*stint.Request){
		"a limit that is not leased": func(r *stint.Request) { r.Limits = append(r.Limits, stint.PerHour(1_000_000)) },
		"an id":                      func(r *stint.Request) { r.ID = fmt.Sprint(rand.Uint64()) },
		"a second subject": func(r *stint.Request) {
			r.And = []stint.Claim{{Subject: "b", Limits: []stint.Limit{leased}, Cost: 1}}
		},
		"a peek":        func(r *stint.Request) { r.Mode = stint.Peek },
		"a reservation": func(r *stint.Request) { r.Mode = stint.Reserve },
		"no cost":       func(r *stint.Request) { r.Cost = 0 },
		"fit":           func(r *stint.Request) { r.Fit = true },
		"a lease":       func(r *stint.Request) { r.Lease = time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newLeaseFar(t, 0)
				l := newLeasesFor(t, store, LeasesConfig{})
				plain := leaseAsk("a", 1, leased)
				leaseStarted(t, l, plain, time.Millisecond)
				r := plain
				r.Limits = slices.Clone(r.Limits)
				change(&r)
				before := store.takes.Load() + store.renewals.Load()
				for range 20 {
					if d := mustLease(t, l, r); d.Charge.Origin() != stint.FromStore {
						t.Fatal("served from memory")
					}
				}
				if n := store.takes.Load() + store.renewals.Load() - before; n < 20 {
					t.Errorf("%d of 20 reached the store", n)
				}
			})
		})
	}
}

// The first costs no more than without leases, and the first block not more than is wanted.
func TestLeasesBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseFar(t, 10*time.Millisecond)
		l := newLeasesFor(t, store, LeasesConfig{})
		r := leaseAsk("a", 1, stint.Per(1000, 10*time.Second).WithLease())
		for range 5 { // seldom enough
			mustLease(t, l, r)
			time.Sleep(600 * time.Millisecond)
		}
		if n := store.renewals.Load(); n != 0 {
			t.Fatalf("%d blocks for one request in 600 ms", n)
		}
		mustLease(t, l, r)
		d := leaseStarted(t, l, r, 100*time.Millisecond)
		store.mu.Lock()
		defer store.mu.Unlock()
		if store.last.Lease != 500*time.Millisecond || store.last.Cost > 20 || store.last.Failure.Mode != stint.FailError || store.last.Bans != nil {
			t.Errorf("asked for %+v", store.last)
		}
		if used := leaseUsed(t, store.Store, "a", r.Limits[0]); d.Usages()[0].Used > used || d.Usages()[0].Used < 1 || d.Usages()[0].ResetAfter > 11*time.Second {
			t.Errorf("the decision says %+v, the store %d", d.Usages(), used)
		}
		if err := d.Charge.Validate(); err != nil {
			t.Error(err)
		}
	})
}

func TestLeaseLength(t *testing.T) {
	for _, c := range []struct{ window, roundTrip, want time.Duration }{
		{10 * time.Second, time.Millisecond, 500 * time.Millisecond},
		{10 * time.Second, 200 * time.Millisecond, 800 * time.Millisecond},
		{time.Minute, 0, 3 * time.Second},
		{24 * time.Hour, 0, 5 * time.Second},
		{100 * time.Millisecond, 0, 20 * time.Millisecond},
		{time.Second, 200 * time.Millisecond, 500 * time.Millisecond},
		{time.Millisecond, 0, 500 * time.Microsecond},
	} {
		ls := newLease(0, &stint.Claim{Limits: []stint.Limit{stint.PerDay(1), stint.Per(1, c.window)}}, false)
		if got := ls.length(int64(c.roundTrip)); got != c.want {
			t.Errorf("window %v, %v away: %v, want %v", c.window, c.roundTrip, got, c.want)
		}
	}
}

// A process that is cut off serves what it has, then the store within answers.
func TestLeasesCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseFar(t, 10*time.Millisecond)
		l := newLeasesFor(t, store, LeasesConfig{})
		r := leaseAsk("a", 1, stint.Per(10_000, 10*time.Second).WithLease())
		for range 200 {
			mustLease(t, l, r)
			time.Sleep(5 * time.Millisecond)
		}
		store.down.Store(true)
		cut, hits := time.Now(), 0
		for {
			d, err := l.Take(t.Context(), r)
			if err != nil {
				if !errors.Is(err, errLeaseCut) {
					t.Fatal(err)
				}
				break
			}
			if !fromLease(d) {
				t.Fatal("not from memory")
			}
			hits++
			time.Sleep(5 * time.Millisecond)
		}
		if took := time.Since(cut); hits < 10 || took > 500*time.Millisecond {
			t.Errorf("%d served in %v", hits, took)
		}
		before := store.renewals.Load()
		for range 100 {
			if _, err := l.Take(t.Context(), r); err == nil {
				t.Fatal("served without a store")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := store.renewals.Load() - before; n < 2 || n > 10 {
			t.Errorf("%d renewals were tried in a second", n)
		}
		store.down.Store(false)
		time.Sleep(time.Second)
		leaseStarted(t, l, r, 5*time.Millisecond)
	})
}

// What a process that died held comes back after the length of its lease and a window.
func TestLeasesCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseFar(t, 0)
		dying := &leaseFar{Store: store.Store}
		l := newLeasesFor(t, dying, LeasesConfig{})
		limit := stint.Per(100, 10*time.Second).WithLease()
		r := leaseAsk("a", 1, limit)
		for range 40 {
			mustLease(t, l, r)
			time.Sleep(5 * time.Millisecond)
		}
		dying.down.Store(true)
		died := time.Now()
		held := leaseUsed(t, store.Store, "a", limit) - 40
		if held <= 0 {
			t.Fatalf("%d held", held)
		}
		time.Sleep(10*time.Second - 10*time.Millisecond)
		if used := leaseUsed(t, store.Store, "a", limit); used < held {
			t.Errorf("%d used after %v, %d were held", used, time.Since(died), held)
		}
		time.Sleep(510 * time.Millisecond)
		if used := leaseUsed(t, store.Store, "a", limit); used != 0 {
			t.Errorf("%d used after %v", used, time.Since(died))
		}
	})
}

// leaseClock is both clocks, moved by hand.
type leaseClock struct {
	mu  sync.Mutex
	now leaseTime
}

func (c *leaseClock) read() leaseTime {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *leaseClock) advance(wall, mono time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.wall += int64(wall)
	c.now.mono += int64(mono)
}

// leaseHeld is a lease with a block, on a clock that stands still.
func leaseHeld(t *testing.T, limit stint.Limit) (l *Leases, store *leaseFar, r stint.Request, clock *leaseClock) {
	store = newLeaseFar(t, 0)
	l = newLeasesFor(t, store, LeasesConfig{})
	clock = &leaseClock{now: leaseTime{wall: time.Now().UnixNano(), mono: 1 << 40}}
	l.clock = clock.read
	r = leaseAsk("a", 10, limit)
	for i := 0; l.held(&r.Claim) < 20; i++ {
		if i > 100 {
			t.Fatal("not leased")
		}
		mustLease(t, l, r)
		synctest.Wait()
	}
	r.Cost = 1
	return l, store, r, clock
}

// leases is how many there are.
func (l *Leases) leases() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.table.count == 0 && len(l.table.bySubject) != 0 {
		panic("subjects without leases")
	}
	return l.table.count
}

// held is what a lease has in stock.
func (l *Leases) held(c *stint.Claim) (units int64) {
	ls := l.table.find(l.hash(c, false), c, false)
	if ls == nil {
		return 0
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, b := range ls.blocks {
		units += b.has()
	}
	return units
}

// A block ends by the wall clock and by the monotonic one, whichever is first.
func TestLeasesClocks(t *testing.T) {
	const d = 500 * time.Millisecond
	for _, c := range []struct {
		name       string
		wall, mono time.Duration
		served     bool
	}{
		{"nothing happened", 0, 0, true},
		{"just before the end", d - d/1000 - 1000, d - d/1000 - 1000, true},
		{"the end", d - d/1024, d - d/1024, false},
		{"suspended", time.Hour, 0, false},
		{"set back", -time.Hour, d, false},
		{"set back a moment ago", -time.Hour, d / 2, true},
		{"set forward", time.Hour, d / 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, store, r, clock := leaseHeld(t, stint.Per(10_000, 10*time.Second).WithLease())
				clock.advance(c.wall, c.mono)
				before := store.takes.Load()
				d := mustLease(t, l, r)
				if fromLease(d) != c.served || store.takes.Load()-before != map[bool]int64{true: 0, false: 1}[c.served] {
					t.Errorf("from memory: %v, want %v", fromLease(d), c.served)
				}
			})
		})
	}
}

// Bans do not concern a shared subject: its units are not those of a caller, but they are
// those of everybody who does not obey bans.
func TestLeasesShared(t *testing.T) {
	limit := stint.Per(1000, 10*time.Second).WithLease()
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseFar(t, 0)
		l := newLeasesFor(t, store, LeasesConfig{})
		if err := store.Command(t.Context(), stint.Command{Kind: stint.Ban, Subject: "a", For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		r := leaseAsk("a", 1, limit)
		r.Shared, r.Bans = true, &stint.BanPolicy{After: 2, Within: time.Minute, Durations: []time.Duration{time.Minute}}
		leaseStarted(t, l, r, time.Millisecond)
		if d := mustLease(t, l, leaseAsk("a", 1, limit)); !fromLease(d) {
			t.Error("who does not obey bans is not served from the same units")
		}
		d := mustLease(t, l, r)
		if !fromLease(d) {
			t.Fatal("not from memory")
		}
		for _, want := range []bool{true, false} {
			if got, err := l.Amend(t.Context(), d.Charge.Part(0), stint.Amendment{}); got != want || err != nil {
				t.Errorf("refunded %v, %v, want %v", got, err, want)
			}
		}
		r.Shared = false
		if d := mustLease(t, l, r); !d.Banned {
			t.Error("who is not shared was not banned")
		}
	})
}

func TestLeasesSettle(t *testing.T) {
	limit := stint.Per(10_000, 10*time.Second).WithLease()
	settle := func(t *testing.T, l *Leases, d stint.Decision, cost int64, want bool) {
		t.Helper()
		got, err := l.Amend(t.Context(), d.Charge, stint.Amendment{Cost: cost})
		if err != nil || got != want {
			t.Fatalf("settled %v, %v, want %v", got, err, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		l, store, r, clock := leaseHeld(t, limit)
		held := l.held(&r.Claim)
		r.Cost = 8
		d := mustLease(t, l, r)
		if !fromLease(d) || l.held(&r.Claim) != held-8 {
			t.Fatal("not from memory")
		}
		settle(t, l, d, 3, true)
		if got := l.held(&r.Claim); got != held-3 {
			t.Errorf("%d held after settling to 3, want %d", got, held-3)
		}
		settle(t, l, d, 0, false) // once
		r.Cost = 1
		d = mustLease(t, l, r)
		settle(t, l, d, 0, true)
		settle(t, l, d, 5, false)
		d = mustLease(t, l, r)
		settle(t, l, d, 5, true)
		if got := l.held(&r.Claim); got != held-8 {
			t.Errorf("%d held after settling up, want %d", got, held-8)
		}
		for _, kind := range []stint.AmendmentKind{stint.Extend, stint.Release} {
			if ok, err := l.Amend(t.Context(), d.Charge, stint.Amendment{Kind: kind}); ok || err != nil {
				t.Errorf("kind %d: %v, %v", kind, ok, err)
			}
		}
		if _, err := l.Amend(t.Context(), d.Charge, stint.Amendment{Cost: -1}); err == nil {
			t.Error("settled to less than nothing")
		}
		other := newLeasesFor(t, store, LeasesConfig{})
		settle(t, other, mustLease(t, l, r), 0, false)

		// A debt that the block cannot pay becomes one of the store's when the block ends.
		d = mustLease(t, l, r)
		charged := leaseUsed(t, store.Store, "a", limit)
		rest := l.held(&r.Claim)
		settle(t, l, d, rest+101, true)
		if got := l.held(&r.Claim); got != 0 {
			t.Errorf("%d held in debt", got)
		}
		clock.advance(time.Second, time.Second)
		time.Sleep(time.Second) // for the janitor
		synctest.Wait()
		if got := leaseUsed(t, store.Store, "a", limit); got != charged+100 {
			t.Errorf("the store counts %d, want %d", got, charged+100)
		}
		settle(t, l, d, 0, false)
	})
	// Only so many can be remembered.
	synctest.Test(t, func(t *testing.T) {
		l, _, r, _ := leaseHeld(t, limit)
		applied := 0
		for range 20 * stint.MaxSettled {
			d := mustLease(t, l, r)
			if !fromLease(d) {
				t.Fatal("not from memory")
			}
			ok, err := l.Amend(t.Context(), d.Charge, stint.Amendment{})
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			applied++
		}
		if applied == 0 || applied > maxBlocks*stint.MaxSettled {
			t.Errorf("%d refunds were remembered", applied)
		}
	})
}

// The next block pays a debt first.
func TestLeaseCover(t *testing.T) {
	ls := newLease(0, &stint.Claim{Limits: []stint.Limit{stint.PerMinute(100)}}, false)
	a := &leaseBlock{granted: 10, debt: 7, charge: stint.Charge{ID: 1, At: 1}}
	b := &leaseBlock{granted: 20, end: leaseTime{1, 1}, charge: stint.Charge{ID: 2, At: 2}}
	b.units.Store(20)
	ls.add(a)
	ls.add(b)
	if a.debt != 0 || b.units.Load() != 13 {
		t.Errorf("debt %d, units %d", a.debt, b.units.Load())
	}
	b.units.Add(-13)
	claim := stint.Claim{Cost: 4}
	if _, ok := ls.settle(&stint.Charge{ID: 9, At: 2, Claim: claim}, 14); !ok || b.debt != 10 {
		t.Errorf("debt %d, want 10", b.debt)
	}
	if _, ok := ls.settle(&stint.Charge{ID: 10, At: 2, Claim: claim}, 1); !ok || b.debt != 7 || b.units.Load() != 0 {
		t.Errorf("debt %d, want 7", b.debt)
	}
	if g, differs := ls.retire(b); !differs || g.cost != 27 {
		t.Errorf("settles to %d", g.cost)
	}
	b.units.Store(5)
	if g, differs := ls.retire(b); !differs || g.cost != 22 {
		t.Errorf("settles to %d", g.cost)
	}
	for range 3 {
		if left, ok := b.take(1, leaseTime{}); ok {
			t.Errorf("took from what was given back, %d left", left)
		}
	}
}

// What was not used is given back: when its block ends, and at Close.
func TestLeasesGiveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseFar(t, 4*time.Millisecond)
		limit := stint.Per(10_000, 10*time.Second).WithLease()
		var all []*Leases
		used := int64(0)
		for i := range 3 {
			l := newLeasesFor(t, store, LeasesConfig{})
			all = append(all, l)
			for range 100 * (i + 1) {
				mustLease(t, l, leaseAsk("a", 1, limit))
				used++
				time.Sleep(3 * time.Millisecond)
			}
		}
		if n := leaseUsed(t, store.Store, "a", limit); n <= used {
			t.Fatalf("the store counts %d, want more than %d", n, used)
		}
		time.Sleep(1100 * time.Millisecond) // the last may have been renewed once more
		if n := leaseUsed(t, store.Store, "a", limit); n != used {
			t.Errorf("the store counts %d after the blocks ended, want %d", n, used)
		}
		leaseStarted(t, all[0], leaseAsk("b", 1, limit), time.Millisecond)
		if err := all[0].Close(); err != nil {
			t.Error(err)
		}
		n := leaseUsed(t, store.Store, "b", limit)
		if d := mustLease(t, all[0], leaseAsk("b", 1, limit)); fromLease(d) {
			t.Error("served after Close")
		}
		if again := leaseUsed(t, store.Store, "b", limit); again != n+1 || n > 10 {
			t.Errorf("the store counts %d, then %d", n, again)
		}
		if all[0].leases() != 0 {
			t.Error("leases after Close")
		}

		leaseStarted(t, all[1], leaseAsk("c", 1, limit), time.Millisecond)
		store.down.Store(true)
		if err := all[1].Close(); err == nil {
			t.Error("Close gave back to a store that is down")
		}
	})
}

// Leases that nobody wants are forgotten, and with the last the janitor goes.
func TestLeasesIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseFar(t, 0)
		l := newLeasesFor(t, store, LeasesConfig{MaxLeases: 5})
		limit := stint.Per(1000, 10*time.Second).WithLease()
		for i := range 10 {
			for range 20 {
				mustLease(t, l, leaseAsk(fmt.Sprint(i), 1, limit))
				time.Sleep(time.Millisecond)
			}
		}
		if n := l.leases(); n != 5 {
			t.Errorf("%d leases, want 5", n)
		}
		time.Sleep(3 * time.Second)
		l.mu.Lock()
		if l.table.count != 0 || len(l.table.bySubject) != 0 || l.sweeping {
			t.Errorf("%d leases are left, janitor at work: %v", l.table.count, l.sweeping)
		}
		l.mu.Unlock()
		for i := range 10 {
			if n := leaseUsed(t, store.Store, fmt.Sprint(i), limit); n != 20 {
				t.Errorf("the store counts %d of subject %d, want 20", n, i)
			}
		}
		leaseStarted(t, l, leaseAsk("9", 1, limit), time.Millisecond)
	})
}

// A block that arrives after its end serves nobody and is given back.
func TestLeasesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseFar(t, 0)
		l := newLeasesFor(t, store, LeasesConfig{})
		limit := stint.Per(1000, 10*time.Second).WithLease()
		store.late = 700 * time.Millisecond
		mustLease(t, l, leaseAsk("a", 1, limit))
		mustLease(t, l, leaseAsk("a", 1, limit))
		time.Sleep(690 * time.Millisecond)
		if n := leaseUsed(t, store.Store, "a", limit); n <= 2 {
			t.Fatal("nothing was leased")
		}
		time.Sleep(20 * time.Millisecond)
		if fromLease(mustLease(t, l, leaseAsk("a", 1, limit))) {
			t.Error("served after the end")
		}
		time.Sleep(5 * time.Second)
		if n := leaseUsed(t, store.Store, "a", limit); n != 3 {
			t.Errorf("the store counts %d, want 3", n)
		}
	})
}

func TestLeasesBansAndResets(t *testing.T) {
	limit := stint.Per(1000, 10*time.Second).WithLease()
	with := func(r stint.Request) stint.Request {
		r.Bans = &stint.BanPolicy{After: 2, Within: time.Minute, Durations: []time.Duration{time.Minute}}
		return r
	}
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseFar(t, 0)
		l, elsewhere := newLeasesFor(t, store, LeasesConfig{}), newLeasesFor(t, store, LeasesConfig{})
		r := with(leaseAsk("a", 1, limit))
		leaseStarted(t, l, r, time.Millisecond)
		if store.last.Bans == nil || store.last.Bans.After != 0 {
			t.Errorf("a renewal has the ban policy %+v, want one that obeys", store.last.Bans)
		}
		if d := mustLease(t, l, leaseAsk("a", 1, limit)); fromLease(d) {
			t.Error("who does not obey bans shares with who does")
		}
		shared := r
		shared.Shared = true
		if d := mustLease(t, l, shared); fromLease(d) {
			t.Error("a subject that is shared shares its units with one that is not")
		}
		// A ban made here takes effect at once.
		if err := l.Command(t.Context(), stint.Command{Kind: stint.Ban, Subject: "a", For: time.Second}); err != nil {
			t.Fatal(err)
		}
		if d := mustLease(t, l, r); !d.Banned {
			t.Error("served although banned")
		}
		time.Sleep(2 * time.Second)
		// One made elsewhere after the length of a lease at most.
		leaseStarted(t, l, r, time.Millisecond)
		if err := elsewhere.Command(t.Context(), stint.Command{Kind: stint.Ban, Subject: "a", For: time.Minute}); err != nil {
			t.Fatal(err)
		}
		banned := time.Now()
		for !mustLease(t, l, r).Banned {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(banned); took > 500*time.Millisecond {
			t.Errorf("banned only after %v", took)
		}
		if l.leases() > 1 {
			t.Error("the lease of a banned subject is kept")
		}
		// Or at once when announced.
		r.Subject = "b"
		leaseStarted(t, l, r, time.Millisecond)
		if err := elsewhere.Command(t.Context(), stint.Command{Kind: stint.Ban, Subject: "b", For: time.Minute}); err != nil {
			t.Fatal(err)
		}
		l.Drop("b")
		if d := mustLease(t, l, r); !d.Banned {
			t.Error("served although banned")
		}
		l.Drop("")
		if n := l.leases(); n != 0 {
			t.Errorf("%d leases after all were dropped", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseFar(t, 10*time.Millisecond)
		l, elsewhere := newLeasesFor(t, store, LeasesConfig{}), newLeasesFor(t, store, LeasesConfig{})
		r := leaseAsk("a", 1, limit)
		leaseStarted(t, l, r, time.Millisecond)
		scoped := r
		scoped.Scope = "s"
		leaseStarted(t, l, scoped, time.Millisecond)
		if err := l.Command(t.Context(), stint.Command{Kind: stint.Reset, Subject: "a", Limits: r.Limits}); err != nil {
			t.Fatal(err)
		}
		if n := leaseUsed(t, store.Store, "a", limit); n != 0 {
			t.Errorf("the store counts %d after a reset", n)
		}
		if !fromLease(mustLease(t, l, scoped)) {
			t.Error("a reset ended the lease of another scope")
		}
		// After a reset the whole limit is there, once, whoever held what before it.
		r.Limits = []stint.Limit{stint.PerHour(1000).WithLease()}
		leaseStarted(t, l, r, time.Millisecond)
		leaseStarted(t, elsewhere, r, time.Millisecond)
		if err := l.Command(t.Context(), stint.Command{Kind: stint.Reset, Subject: "a", Limits: r.Limits}); err != nil {
			t.Fatal(err)
		}
		elsewhere.Drop("a")
		admitted := 0
		for range 1500 {
			for _, p := range []*Leases{l, elsewhere} {
				if mustLease(t, p, r).Allowed {
					admitted++
				}
			}
		}
		if admitted > 1000 {
			t.Errorf("%d admitted after a reset, want at most 1000", admitted)
		}
	})
}

// Random processes, costs, distances, outages and refunds against the log of what was
// admitted.
func TestLeasesNeverOver(t *testing.T) {
	type event struct{ at, cost int64 }
	sets := [][]stint.Limit{
		{stint.Per(20, time.Second).WithLease()},
		{stint.Per(400, time.Second).WithLease()},
		{stint.Per(30, time.Second).WithBurst(3).WithLease(), stint.Per(500, 20*time.Second).WithLease()},
		{stint.Limit{Max: 100, Window: time.Second, Algorithm: stint.Fixed, Leased: true}},
		{stint.Per(2000, 10*time.Second).WithLease(), stint.Limit{Max: 300, Window: time.Second, Algorithm: stint.Fixed, Leased: true}},
	}
	rounds := 20
	if testing.Short() {
		rounds = len(sets)
	}
	hits, all := 0, 0
	for seed := range rounds {
		limits := sets[seed%len(sets)]
		synctest.Test(t, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(uint64(seed), 7))
			store := newLeaseFar(t, 0)
			var mu sync.Mutex
			log := map[*event]bool{}
			var group sync.WaitGroup
			callers := newLeaseCallers()
			for range 1 + chance.IntN(4) {
				far := &leaseFar{Store: store.Store, roundTrip: time.Duration(chance.IntN(100)) * time.Millisecond}
				l := newLeasesFor(t, far, LeasesConfig{})
				own := rand.New(rand.NewPCG(chance.Uint64(), 7))
				rate := float64(limits[0].Max) / limits[0].Window.Seconds() * own.Float64() * 1.5
				group.Go(func() {
					for until := time.Now().Add(8 * time.Second); time.Now().Before(until); {
						time.Sleep(time.Duration(own.ExpFloat64() / rate * float64(time.Second)))
						switch own.IntN(2000) {
						case 0:
							far.down.Store(!far.down.Load())
						case 1:
							l.Drop("a")
						}
						cost, refund, now := 1+own.Int64N(3), own.IntN(10) == 0, time.Now().UnixMicro()
						callers.calls <- func() {
							d, err := l.Take(context.Background(), leaseAsk("a", cost, limits...))
							if err != nil || !d.Allowed {
								return
							}
							e := &event{d.Charge.At, cost}
							mu.Lock()
							all++
							if fromLease(d) {
								e.at = now
								hits++
							}
							log[e] = true
							mu.Unlock()
							if refund && fromLease(d) {
								if ok, err := l.Amend(context.Background(), d.Charge, stint.Amendment{}); err != nil {
									t.Error(err)
								} else if ok {
									mu.Lock()
									delete(log, e)
									mu.Unlock()
								}
							}
						}
					}
				})
			}
			group.Wait()
			callers.wait()
			var events []event
			for e := range log {
				events = append(events, *e)
			}
			slices.SortFunc(events, func(a, b event) int { return int(a.at - b.at) })
			for _, limit := range limits {
				span, sum, first := limit.Span().Microseconds(), int64(0), 0
				for _, e := range events {
					sum += e.cost
					for limit.Algorithm == stint.Fixed && events[first].at/span != e.at/span || limit.Algorithm == stint.Sliding && events[first].at <= e.at-span {
						sum -= events[first].cost
						first++
					}
					if sum > limit.Capacity() {
						t.Fatalf("seed %d, %s: %d in one window", seed, &limit, sum)
					}
				}
			}
		})
	}
	t.Logf("%d of %d admitted from memory", hits, all)
	if hits < all/4 {
		t.Error("hardly anything came from memory: nothing was tested")
	}
}

// Many goroutines in four processes, one limit: exactly as many as there are.
func TestLeasesExactlyOnce(t *testing.T) {
	const limit = 20_000
	store := newLeaseFar(t, 0)
	var all []*Leases
	for range 4 {
		all = append(all, newLeasesFor(t, store, LeasesConfig{}))
	}
	r := leaseAsk("a", 1, stint.PerDay(limit).WithLease())
	var admitted, hits atomic.Int64
	var group sync.WaitGroup
	deadline := time.Now().Add(30 * time.Second)
	for g := range 64 {
		group.Go(func() {
			l, after := all[g%4], 0
			for time.Now().Before(deadline) && after < 200 {
				d, err := l.Take(context.Background(), r)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					admitted.Add(1)
				} else {
					time.Sleep(time.Millisecond) // some process still has units
				}
				if fromLease(d) {
					hits.Add(1)
				}
				if admitted.Load() >= limit {
					after++
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d from memory", hits.Load())
	if n := admitted.Load(); n != limit {
		t.Errorf("admitted %d, want %d", n, limit)
	}
	for _, l := range all {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := leaseUsed(t, store.Store, "a", r.Limits[0]); n != limit {
		t.Errorf("the store counts %d, want %d", n, limit)
	}
}

// Everything at once, for the race detector.
func TestLeasesInParallel(t *testing.T) {
	store := newLeaseFar(t, 0)
	l := newLeasesFor(t, store, LeasesConfig{MaxLeases: 8})
	limit := stint.Per(5000, 100*time.Millisecond).WithLease()
	var group sync.WaitGroup
	for g := range 64 {
		group.Go(func() {
			for i := range 500 {
				subject := fmt.Sprint((g + i/50) % 12)
				d, err := l.Take(context.Background(), leaseAsk(subject, 1+int64(i%3), limit))
				if err != nil {
					t.Error(err)
				}
				switch {
				case d.Allowed && i%7 == 0:
					_, err = l.Amend(context.Background(), d.Charge, stint.Amendment{Cost: int64(i % 5)})
				case i%97 == 0:
					l.Drop(subject)
				case i%101 == 0:
					err = l.Command(context.Background(), stint.Command{Kind: stint.Reset, Subject: subject, Limits: []stint.Limit{limit}})
				}
				if err != nil {
					t.Error(err)
				}
				if i%20 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	group.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if n := l.leases(); n != 0 {
		t.Errorf("%d leases after Close", n)
	}
}

type leaseListener struct {
	Silent
	hits atomic.Int64
}

func (o *leaseListener) Saved(r *stint.Request, by Saver) {
	if by == ByLease && r.Subject == "a" {
		o.hits.Add(1)
	}
}

func TestLeasesTellTheObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o leaseListener
		store := newLeaseFar(t, 0)
		l := newLeasesFor(t, store, LeasesConfig{Observer: &o})
		hits := int64(0)
		for range 50 {
			if fromLease(mustLease(t, l, leaseAsk("a", 1, stint.PerMinute(1000).WithLease()))) {
				hits++
			}
			time.Sleep(time.Millisecond)
		}
		if hits == 0 || o.hits.Load() != hits {
			t.Errorf("told of %d hits, want %d", o.hits.Load(), hits)
		}
	})
}

func TestLeaseHitAllocatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, r, _ := leaseHeld(t, stint.Per(1<<40, 10*time.Second).WithLease())
		ls := l.table.find(l.hash(&r.Claim, false), &r.Claim, false)
		ls.stock.Load().shelves[0].units.Store(1 << 30)
		if n := testing.AllocsPerRun(100, func() {
			if d, _ := l.Take(context.Background(), r); !fromLease(d) {
				t.Error("a miss")
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// One key, many goroutines.
func BenchmarkLeaseHit(b *testing.B) {
	for _, goroutines := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			store := newLeaseFar(b, 0)
			l := newLeasesFor(b, store, LeasesConfig{})
			lim, err := stint.New(l, stint.PerMinute(1<<50).WithLease())
			if err != nil {
				b.Fatal(err)
			}
			r := leaseAsk("hot", 1, lim.Limits()...)
			leaseStarted(b, l, r, time.Millisecond)
			store.takes.Store(0)
			b.ReportAllocs()
			if goroutines == 1 {
				for b.Loop() {
					if d, err := lim.Allow(b.Context(), "hot"); err != nil || !d.Allowed {
						b.Error("denied", err)
					}
				}
			} else {
				b.SetParallelism(goroutines / runtime.GOMAXPROCS(0))
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						if d, err := lim.Allow(b.Context(), "hot"); err != nil || !d.Allowed {
							b.Error("denied", err)
						}
					}
				})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			b.ReportMetric(100*float64(store.takes.Load())/float64(b.N), "%misses")
		})
	}
}
