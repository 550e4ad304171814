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
	held  bool         // of a local charge: the store knows of its place
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

// twins holds those of places, of bookings, and of local charges that the store may have made
// too. When there are too many the oldest is forgotten.
type twins [16]twinShard

type twinShard struct {
	mu    sync.Mutex
	late  map[uint64]*twin // of local charges whose answers are late
	most  int
	of    map[uint64]*twin
	order []uint64 // a ring, once it is full
	next  int
}

func (ts *twins) shard(key uint64) *twinShard { return &ts[key%uint64(len(ts))] }

// add remembers a twin.
func (ts *twins) add(key uint64, tw twin) {
	t := ts.shard(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(key, tw)
}

func (t *twinShard) add(key uint64, tw twin) {
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

func (ts *twins) get(key uint64) (tw twin, ok bool) {
	t := ts.shard(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.of[key]; found != nil {
		return *found, true
	}
	return tw, false
}

// expect notes that it is not known yet whether the store made the charge of a local one.
func (ts *twins) expect(key uint64) {
	t := ts.shard(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.late == nil {
		t.late = make(map[uint64]*twin)
	}
	tw := &twin{late: true}
	if old := t.of[key]; old != nil {
		tw.since = old.since
	}
	t.late[key] = tw
}

// came notes that it is known: that is the store's charge, if it made one. It returns the
// settlements that were made meanwhile.
func (ts *twins) came(key uint64, store stint.Charge) []settlement {
	t := ts.shard(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	tw := t.late[key]
	delete(t.late, key)
	if store.ID != 0 {
		t.add(key, twin{store: store})
	}
	if tw == nil {
		return nil
	}
	return tw.settlements
}

// settle returns the twin of a local charge that is amended. If its answer is late, a
// settlement is remembered.
func (ts *twins) settle(c *stint.Charge, a stint.Amendment) twin {
	t := ts.shard(c.ID)
	t.mu.Lock()
	defer t.mu.Unlock()
	if tw := t.late[c.ID]; tw != nil {
		if a.Kind == stint.Settle {
			tw.settlements = append(tw.settlements, settlement{*c, a.Cost})
		}
		return *tw
	}
	if tw := t.of[c.ID]; tw != nil {
		return *tw
	}
	return twin{}
}

// recents knows what counts the last charges of the store locally, so that a refund is
// given back to what was charged. The ids of a process's charges follow each other.
type recents struct {
	locks [64]struct {
		sync.Mutex
		_ [56]byte // the next one is on another cache line
	}
	slots []recentCharge // as many as a power of two
}

type recentCharge struct {
	id, own uint64
	at      int64
	// The states of a charge are told apart by their generations: those of the store, and
	// those that count them locally.
	first [2]uint32
	more  [][2]uint32
}

func (t *recents) slot(id uint64) (*recentCharge, *sync.Mutex) {
	i := id & uint64(len(t.slots)-1)
	return &t.slots[i], &t.locks[i%uint64(len(t.locks))].Mutex
}

// add remembers what counts a charge.
func (t *recents) add(c, own *stint.Charge) {
	next := recentCharge{id: c.ID, own: own.ID, at: own.At, first: [2]uint32{c.Generation, own.Generation}}
	if own.Rest != nil {
		for i := range own.Rest.Generations {
			next.more = append(next.more, [2]uint32{c.GenerationAt(i + 1), own.GenerationAt(i + 1)})
		}
	}
	s, mu := t.slot(c.ID)
	mu.Lock()
	*s = next
	mu.Unlock()
}

// of returns what counts a charge of the store's, or a part of it, if that is known.
func (t *recents) of(c *stint.Charge) (own stint.Charge, ok bool) {
	s, mu := t.slot(c.ID)
	mu.Lock()
	found := *s
	mu.Unlock()
	if found.id != c.ID || c.ID == 0 {
		return own, false
	}
	own = stint.Charge{ID: found.own, At: found.at, Claim: c.Claim}
	if c.Rest != nil {
		own.Rest = &stint.Rest{And: c.Rest.And}
		if n := len(c.Rest.Generations); n > 0 {
			own.Rest.Generations = make([]uint32, n)
		}
	}
	generation := func(of uint32) uint32 {
		for _, pair := range found.more {
			if pair[0] == of {
				return pair[1]
			}
		}
		return found.first[1]
	}
	own.Generation = generation(c.Generation)
	if c.Rest != nil {
		for i := range c.Rest.Generations {
			own.Rest.Generations[i] = generation(c.Rest.Generations[i])
		}
	}
	return own, true
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
	if booking || anyPlace(&r.Claim, r.And) {
		l.twins.add(l.twinKey(&d.Charge, booking), twin{own: *own})
	} else {
		l.recents.add(&d.Charge, own)
	}
}

// amended does to the local counts what was done to a charge of the store's.
func (l *local) amended(c *stint.Charge, a stint.Amendment) {
	ctx := context.Background()
	for _, booking := range []bool{false, true} {
		if tw, ok := l.twins.get(l.twinKey(c, booking)); ok && tw.own.ID != 0 {
			if own := partOf(&tw.own, c); own.ID != 0 {
				_, _ = l.own.Amend(ctx, own, a)
			}
			return
		}
	}
	if own, ok := l.recents.of(c); ok && a.Kind == stint.Settle {
		_, _ = l.own.Amend(ctx, own, a)
	}
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
func (l *local) amendSince(c, since *stint.Charge, a stint.Amendment, wall int64) {
	ctx := context.Background()
	switch {
	case since.ID != 0:
		if part := partOf(since, c); part.ID != 0 {
			_, _ = l.since.Amend(ctx, part, a)
		}
	case a.Kind == stint.Settle && l.since.Len() > 0:
		for i := range 1 + len(c.And()) {
			claim := c.ClaimAt(i)
			for j := range claim.Limits {
				if n := stillIn(&claim.Limits[j], claim.Cost-a.Cost, c.At, wall); n > 0 {
					_ = l.since.Command(ctx, stint.Command{Kind: stint.GiveBack, Subject: claim.Subject, Scope: claim.Scope,
						Limits: claim.Limits[j : j+1], Units: n})
				}
			}
		}
	}
}

// commanded does locally what was done to the store, or tried. Units are given back once: not
// here if the store gave them back and has yet to be charged with what was granted here.
func (l *local) commanded(c *stint.Command, done bool) {
	ctx := context.Background()
	if c.Kind == stint.GiveBack {
		claim := stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits}
		set := l.lock(&claim, nil)
		defer l.unlock(set)
		if rec := l.find(&claim); rec != nil {
			for j := range c.Limits {
				k := rec.of(&c.Limits[j])
				switch {
				case k == nil || k.uncharged == 0:
				case done:
					return
				default:
					k.drop(c.Units)
				}
			}
			l.settled(rec)
		}
	}
	_ = l.own.Command(ctx, *c) // fails only once it is closed
	if c.Kind == stint.Reset || c.Kind == stint.GiveBack {
		_ = l.since.Command(ctx, *c)
	}
}

// placed changes how many local places of a charge's claims the store does not know of.
func (l *local) placed(c *stint.Charge, change, now int64) {
	set := l.lock(&c.Claim, c.And())
	defer l.unlock(set)
	for i := range 1 + len(c.And()) {
		claim := c.ClaimAt(i)
		rec := l.find(claim)
		for j := range claim.Limits {
			if k := rec.of(&claim.Limits[j]); k != nil && k.limit.Algorithm == stint.Concurrency && claim.Cost > 0 {
				k.places = max(k.placesNow(now)+change, 0)
				k.placesAt = now
			}
		}
	}
}
