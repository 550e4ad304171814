package resilience

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/oracle"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/storetest"
)

func TestLeasesContract(t *testing.T) {
	for _, leased := range []bool{false, true} {
		t.Run(fmt.Sprintf("leased=%v", leased), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Harness {
				clock := &storetest.Clock{}
				s, err := memorystore.New(memorystore.Config{Now: clock.Now})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				l := newLeasesFor(t, s, Config{})
				var mono atomic.Int64
				l.clock = func() leaseTime {
					wall := clock.Now().UnixNano()
					for old := mono.Load(); old < wall && !mono.CompareAndSwap(old, wall); old = mono.Load() {
					}
					return leaseTime{wall: wall, mono: mono.Load()}
				}
				h := storetest.Harness{Store: l, Clock: clock, NeverOver: true}
				if leased {
					h.Store = leaseAll{l}
				}
				return h
			})
		})
	}
}

// A block is charged to the meter of a burst when it is taken. Used at its end, its units are
// refilled sooner than if they were charged then, by the length of the lease. The limit itself
// holds: a capacity in any window, and Max per window in the long run.
func TestLeasesOfABurst(t *testing.T) {
	clock := &storetest.Clock{}
	s, err := memorystore.New(memorystore.Config{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	l := newLeasesFor(t, s, Config{})
	l.clock = func() leaseTime { return leaseTime{clock.Now().UnixNano(), clock.Now().UnixNano()} }
	r := leaseAsk("a", 1, stint.PerSecond(100).WithBurst(2).WithLease())
	ls := newLease(l.hash(&r.Claims[0], false), &r.Claims[0], false)
	l.table.add(ls)
	ls.begin(1000, int64(time.Millisecond), l.now())
	ls.renewal.notBefore.Store(math.MaxInt64) // only this one
	l.renewNow(ls, l.now())
	length := ls.length(l.roundTrip.Load())

	truth := oracle.NewTruth()
	truth.AnyDelay = true
	take := func() stint.Decision {
		t.Helper()
		d := mustLease(t, l, r)
		if err := truth.Took(clock.Now().UnixMicro(), r, d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	clock.Advance(length - time.Millisecond)
	for i := range 200 {
		if d := take(); !fromLease(d) {
			t.Fatalf("%d of 200 came from memory", i)
		}
	}
	used := clock.Now()
	for range 200 {
		clock.Advance(5 * time.Millisecond)
		if d := take(); d.Allowed {
			t.Fatalf("201 within %v", clock.Now().Sub(used))
		}
	}
	clock.Advance(20 * time.Millisecond) // the block leaves the log
	n := int64(0)
	for take().Allowed {
		n++
	}
	since := clock.Now().Sub(used)
	if least, most := (100*since).Milliseconds()/1000, (100*(since+length)).Milliseconds()/1000; n <= least ||
		n > most {
		t.Errorf("%d more after %v, want more than %d and at most %d", n, since, least, most)
	}
}

func TestLeasesPassBy(t *testing.T) {
	leased := stint.PerMinute(1_000_000).WithLease()
	for name, change := range map[string]func(*stint.Request){
		"a limit that is not leased": func(r *stint.Request) {
			r.Claims[0].Limits = append(r.Claims[0].Limits, stint.PerHour(1_000_000))
		},
		"an id": func(r *stint.Request) { r.ID = fmt.Sprint(rand.Uint64()) },
		"a second subject": func(r *stint.Request) {
			r.Claims = append(r.Claims[:1:1], []stint.Claim{{Subject: "b", Limits: []stint.Limit{leased}, Cost: 1}}...)
		},
		"a peek":        func(r *stint.Request) { r.Mode = stint.ModePeek },
		"a reservation": func(r *stint.Request) { r.Mode = stint.ModeReserve },
		"a force":       func(r *stint.Request) { r.Mode = driver.ModeForce },
		"no cost":       func(r *stint.Request) { r.Claims[0].Cost = 0 },
		"fit":           func(r *stint.Request) { r.Terms().Fit = true },
		"a lease":       func(r *stint.Request) { r.Terms().Lease = time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newLeaseFar(t, 0)
				l := newLeasesFor(t, store, Config{})
				plain := leaseAsk("a", 1, leased)
				leaseStarted(t, l, plain, time.Millisecond)
				r := plain
				r.Claims = slices.Clone(r.Claims)
				r.Claims[0].Limits = slices.Clone(r.Claims[0].Limits)
				change(&r)
				before := store.takes.Load() + store.renewals.Load()
				for range 20 {
					if d := mustLease(t, l, r); !contract.FromStore(&d.Charge) {
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
		l := newLeasesFor(t, store, Config{})
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
		if store.last.Terms().Lease != 500*time.Millisecond || store.last.Claims[0].Cost > 20 ||
			store.last.Failure.Mode != stint.FailError || store.last.Bans != nil {
			t.Errorf("asked for %+v", store.last)
		}
		if used := leaseUsed(t, store.Store, "a", r.Claims[0].Limits[0]); d.Usages()[0].Used > used ||
			d.Usages()[0].Used < 1 ||
			d.Usages()[0].ResetAfter > 11*time.Second {
			t.Errorf("the decision says %+v, the store %d", d.Usages(), used)
		}
		if err := (stint.Amendment{}).Validate(&d.Charge); err != nil {
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

func TestLeasesAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var observed atomic.Int64
		o := observerFunc(func(event any) {
			if e := event.(*Decided); e.Source == sourceLease && e.Request.Claims[0].Subject == "a" &&
				e.Decision.Allowed {
				observed.Add(1)
			}
		})
		store := newLeaseFar(t, 0)
		l := newLeasesFor(t, store, Config{Observer: o})
		hits := int64(0)
		for range 50 {
			if fromLease(mustLease(t, l, leaseAsk("a", 1, stint.PerMinute(1000).WithLease()))) {
				hits++
			}
			time.Sleep(time.Millisecond)
		}
		if hits == 0 || observed.Load() != hits {
			t.Errorf("observed %d hits, want %d", observed.Load(), hits)
		}
	})
}
