package resilience

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/memorystore"
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

var errLeaseCut = &stint.StoreError{Op: "take", Kind: errkind.Unreachable, Err: errors.New("cut off")}

func (f *leaseFar) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if r.Terms().Lease > 0 {
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
	if r.Terms().Lease > 0 {
		time.Sleep(f.late)
	}
	return d, err
}

func (f *leaseFar) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	f.amends.Add(1)
	time.Sleep(f.roundTrip / 2)
	if f.down.Load() {
		return stint.Amended{}, errLeaseCut
	}
	done, err := f.Store.Amend(ctx, c, a)
	time.Sleep(f.roundTrip / 2)
	return done, err
}

func newLeaseFar(t testing.TB, roundTrip time.Duration) *leaseFar {
	s, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &leaseFar{Store: s, roundTrip: roundTrip}
}

func newLeasesFor(t testing.TB, inner stint.Store, c Config) *leases {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	l := newLeases(bottom{inner}, c.withDefaults())
	t.Cleanup(func() { l.Close() })
	return l
}

func leaseAsk(subject string, cost int64, limits ...stint.Limit) stint.Request {
	return stint.Request{Claims: []stint.Claim{{Subject: subject, Limits: limits, Cost: cost}}}
}

// leaseUsed is what the store itself counts.
func leaseUsed(t testing.TB, s stint.Store, subject string, l stint.Limit) int64 {
	t.Helper()
	r := leaseAsk(subject, 1, l)
	r.Mode = stint.ModePeek
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

func fromLease(d stint.Decision) bool { return d.Allowed && d.Charge.Data().Leased }

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
		limits[i].Leased = limits[i].Algorithm == stint.AlgorithmSliding || limits[i].Algorithm == stint.AlgorithmFixed
	}
	return limits
}

func (s leaseAll) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	r.Claims = slices.Clone(r.Claims)
	r.Claims = slices.Clone(r.Claims)
	for i := range r.Claims {
		r.Claims[i].Limits = s.mark(r.Claims[i].Limits)
	}
	return s.Store.Take(ctx, r)
}

func (s leaseAll) Command(ctx context.Context, c stint.Command) error {
	c.Limits = s.mark(c.Limits)
	return s.Store.Command(ctx, c)
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
func leaseHeld(t *testing.T, limit stint.Limit) (l *leases, store *leaseFar, r stint.Request, clock *leaseClock) {
	store = newLeaseFar(t, 0)
	l = newLeasesFor(t, store, Config{})
	clock = &leaseClock{now: leaseTime{wall: time.Now().UnixNano(), mono: 1 << 40}}
	l.clock = clock.read
	r = leaseAsk("a", 10, limit)
	for i := 0; l.held(&r.Claims[0]) < 20; i++ {
		if i > 100 {
			t.Fatal("not leased")
		}
		mustLease(t, l, r)
		synctest.Wait()
	}
	r.Claims[0].Cost = 1
	return l, store, r, clock
}

// leases is how many there are.
func (l *leases) leases() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.table.count == 0 && len(l.table.bySubject) != 0 {
		panic("subjects without leases")
	}
	return l.table.count
}

// held is what a lease has in stock.
func (l *leases) held(c *stint.Claim) (units int64) {
	ls := l.table.find(l.hash(c, false), c, false)
	if ls == nil {
		return 0
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, b := range ls.blocks {
		units += b.left()
	}
	return units
}
