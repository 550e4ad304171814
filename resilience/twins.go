package resilience

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/stint-limiter/stint"
)

// twin says where else a charge is counted, so that to amend it amends that too.
type twin struct {
	own   stint.Charge // of a charge of the store's: what counts it locally
	since stint.Charge // of a local charge: what counts it as the process's part
	store stint.Charge // of a local charge: the store's, which turned out to be made
	// late says that it is not known yet whether the store made the charge of a local one.
	// Settlements are those that were made meanwhile.
	late        bool
	settlements []settlement
}

// settlement is what a charge, or a part of it, really cost.
type settlement struct {
	charge stint.Charge
	cost   int64
}

// twins holds those of charges that may be amended precisely: places, bookings, and local
// charges of which the store may have one too. All others are settled by their units. When
// there are too many the oldest is forgotten.
type twins struct {
	mu    sync.Mutex
	most  int
	of    map[uint64]*twin
	order []uint64 // a ring, once it is full
	next  int
}

func (t *twins) add(key uint64, tw twin) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = make(map[uint64]*twin)
	}
	if old := t.of[key]; old != nil {
		if tw.since.ID == 0 {
			tw.since = old.since
		}
		*old = tw
		return
	}
	t.of[key] = &tw
	if len(t.order) < t.most {
		t.order = append(t.order, key)
		return
	}
	delete(t.of, t.order[t.next])
	t.order[t.next] = key
	t.next = (t.next + 1) % t.most
}

// change calls f with the twin of a charge, nil if there is none. It keeps the lock.
func (t *twins) change(key uint64, f func(*twin)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t.of[key])
}

func (t *twins) get(key uint64) (tw twin, ok bool) {
	t.change(key, func(found *twin) {
		if found != nil {
			tw, ok = *found, true
		}
	})
	return tw, ok
}

// twinKey names a charge of the store's: a place by its id. A booking that is moved
// is known by its instant only.
func (l *local) twinKey(c *stint.Charge, booking bool) uint64 {
	if booking {
		return mix(maphash.String(l.seed, c.Claim.Subject)^uint64(c.At), oddSubject)
	}
	return c.ID
}

// twin remembers what counts a charge of the store's locally, if that is amended precisely.
func (l *local) twin(r *stint.Request, d *stint.Decision, own *stint.Charge) {
	booking := r.Mode == stint.Reserve && d.RetryAfter > 0
	if r.Booked != 0 {
		moved := d.Charge
		moved.At = r.Booked
		if tw, ok := l.twins.get(l.twinKey(&moved, true)); ok {
			_, _ = l.own.Amend(context.Background(), tw.own, stint.Amendment{Kind: stint.Settle})
		}
	}
	if booking || anyPlace(r) {
		l.twins.add(l.twinKey(&d.Charge, booking), twin{own: *own})
	}
}

// amended does to the local counts what was done to a charge of the store's.
func (l *local) amended(c *stint.Charge, a stint.Amendment) {
	ctx := context.Background()
	for _, booking := range []bool{false, true} {
		if tw, ok := l.twins.get(l.twinKey(c, booking)); ok && tw.own.ID != 0 {
			_, _ = l.own.Amend(ctx, tw.own, a)
			return
		}
	}
	if a.Kind != stint.Settle {
		return
	}
	for i := range 1 + len(c.And()) {
		l.adjust(c.ClaimAt(i), a.Cost-c.ClaimAt(i).Cost)
	}
}

// adjust counts more or fewer units of a claim, in own.
func (l *local) adjust(c *stint.Claim, units int64) {
	ctx := context.Background()
	switch {
	case c.Cost == 0:
	case units < 0:
		_ = l.own.Command(ctx, giveBackOf(c, -units))
	case units > 0:
		more := *c
		more.Cost = units
		_, _ = l.own.Take(ctx, stint.Request{Claim: more, Mode: stint.Force})
	}
}

func giveBackOf(c *stint.Claim, units int64) stint.Command {
	return stint.Command{Kind: stint.GiveBack, Subject: c.Subject, Scope: c.Scope, Limits: c.Limits, Units: units}
}

// partOf returns the part of the store's charge that a local one, or a part of it, is about.
func partOf(store, local *stint.Charge) stint.Charge {
	if len(store.And()) == len(local.And()) {
		return *store
	}
	var numbers []int
	for i := range 1 + len(local.And()) {
		want := local.ClaimAt(i)
		for k := range 1 + len(store.And()) {
			if c := store.ClaimAt(k); c.Subject == want.Subject && c.Scope == want.Scope &&
				slices.EqualFunc(c.Limits, want.Limits, func(a, b stint.Limit) bool { return a.SameID(&b) }) {
				numbers = append(numbers, k)
			}
		}
	}
	return store.Part(numbers...)
}

// amendSince does to what counts as the process's part what was done to a local charge, or
// to a part of it.
func (l *local) amendSince(c, since *stint.Charge, a stint.Amendment) {
	ctx := context.Background()
	switch {
	case since.ID != 0:
		_, _ = l.since.Amend(ctx, partOf(since, c), a)
	case a.Kind == stint.Settle && l.since.Len() > 0:
		for i := range 1 + len(c.And()) {
			claim := c.ClaimAt(i)
			if less := claim.Cost - a.Cost; less > 0 && claim.Cost > 0 {
				_ = l.since.Command(ctx, giveBackOf(claim, less))
			}
		}
	}
}

// command does locally what was done to the store, or tried. Units are given back once: not
// here if the store gave them back and has yet to be charged with what was granted here.
func (l *local) command(c *stint.Command, done bool) {
	ctx := context.Background()
	if c.Kind == stint.GiveBack {
		claim := stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits}
		set := l.lock(&claim, nil)
		defer l.unlock(set)
		if rec := l.find(&claim); rec != nil && rec.uncharged > 0 {
			if done {
				return
			}
			if rec.debt != nil {
				rec.uncharged = max(rec.uncharged-(c.Units-rec.debt.drop(c.Units)), 0)
				l.settleDebt(rec)
			}
		}
	}
	_ = l.own.Command(ctx, *c) // fails only once it is closed
	if c.Kind == stint.Reset || c.Kind == stint.GiveBack {
		_ = l.since.Command(ctx, *c)
	}
}
