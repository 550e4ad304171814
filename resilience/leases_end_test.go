package resilience

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
)

// A process that is cut off serves what it has, then the store within answers.
func TestLeasesCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseFar(t, 10*time.Millisecond)
		l := newLeasesFor(t, store, Config{})
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
		l := newLeasesFor(t, dying, Config{})
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
				if fromLease(d) != c.served ||
					store.takes.Load()-before != map[bool]int64{true: 0, false: 1}[c.served] {
					t.Errorf("from memory: %v, want %v", fromLease(d), c.served)
				}
			})
		})
	}
}

// What was not used is given back: when its block ends, and at Close.
func TestLeasesGiveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseFar(t, 4*time.Millisecond)
		limit := stint.Per(10_000, 10*time.Second).WithLease()
		var all []*leases
		used := int64(0)
		for i := range 3 {
			l := newLeasesFor(t, store, Config{})
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

// Leases that nobody wants are forgotten, and with the last the sweeper goes.
func TestLeasesIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseFar(t, 0)
		l := newLeasesFor(t, store, Config{Leases: 5})
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
			t.Errorf("%d leases are left, sweeper at work: %v", l.table.count, l.sweeping)
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
		l := newLeasesFor(t, store, Config{})
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
