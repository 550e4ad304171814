package resilience

import (
	"context"
	"hash/maphash"
	"sync"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// counterpart is where else a charge is counted, so that an amendment applies there too.
type counterpart struct {
	own   stint.Charge // of a charge of the store: what counts it locally
	since stint.Charge // of a local charge: what counts it as the process's part
	store stint.Charge // of a local charge: the store's, which turned out to be made
	held  bool         // of a local charge: the store knows of its place
	// late says that it is not known yet whether the store made the charge of a local one.
	// Settlements are those that were made meanwhile.
	late        bool
	settlements []settlement
}

// settlement is what a charge, or a part of it, really cost, and what is charged of that locally.
type settlement struct {
	charge    stint.Charge
	amendment stint.Amendment
	charged   int64
}

// counterparts holds those of concurrency places, of bookings, and of local charges that the store
// may have made too. When there are too many, the oldest is forgotten.
type counterparts [16]counterpartShard

type counterpartShard struct {
	mu    sync.Mutex
	late  map[uint64]*counterpart // of local charges whose answers are late
	most  int
	of    map[uint64]*counterpart
	order []uint64 // a ring, once it is full
	next  int
}

func (ts *counterparts) shard(key uint64) *counterpartShard { return &ts[key%uint64(len(ts))] }

// add remembers a counterpart.
func (ts *counterparts) add(key uint64, other counterpart) {
	t := ts.shard(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(key, other)
}

func (t *counterpartShard) add(key uint64, other counterpart) {
	if old := t.of[key]; old != nil {
		if other.since.Data().ID == 0 {
			other.since = old.since
		}
		*old = other
		return
	}
	t.of[key] = &other
	if len(t.order) < t.most {
		t.order = append(t.order, key)
		return
	}
	delete(t.of, t.order[t.next])
	t.order[t.next] = key
	t.next = (t.next + 1) % t.most
}

func (ts *counterparts) get(key uint64) (other counterpart, ok bool) {
	t := ts.shard(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.of[key]; found != nil {
		return *found, true
	}
	return other, false
}

// expect notes that it is not known yet whether the store made the charge of a local one.
func (ts *counterparts) expect(key uint64) {
	t := ts.shard(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	other := &counterpart{late: true}
	if old := t.of[key]; old != nil {
		other.since = old.since
	}
	t.late[key] = other
}

// known notes that it is known: that is the store's charge, if it made one. It returns the
// settlements that were made meanwhile.
func (ts *counterparts) known(key uint64, store stint.Charge) []settlement {
	t := ts.shard(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	other := t.late[key]
	delete(t.late, key)
	if store.Data().ID != 0 {
		t.add(key, counterpart{store: store})
	}
	if other == nil {
		return nil
	}
	return other.settlements
}

// settle returns the counterpart of a local charge that is amended. If its answer is late, a
// settlement is remembered.
func (ts *counterparts) settle(s settlement) counterpart {
	id := s.charge.Data().ID
	t := ts.shard(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.late[id]; other != nil {
		if s.amendment.Kind == stint.AmendSettle {
			other.settlements = append(other.settlements, s)
		}
		return *other
	}
	if other := t.of[id]; other != nil {
		return *other
	}
	return counterpart{}
}

// recentCharges remembers what counts the last charges of the store locally, so that a refund
// applies to what was charged. The ids of a process's charges are consecutive.
type recentCharges struct {
	locks [64]struct {
		sync.Mutex
		_ [56]byte // the next one is on another cache line
	}
	slots []recentCharge // as many as a power of two
}

type recentCharge struct {
	id, own uint64
	at      int64
	// The states of a charge are told apart by their generations: those of the store, and those
	// that count them locally.
	first [2]uint32
	more  [][2]uint32
}

func (t *recentCharges) slot(id uint64) (*recentCharge, *sync.Mutex) {
	i := id & uint64(len(t.slots)-1)
	return &t.slots[i], &t.locks[i%uint64(len(t.locks))].Mutex
}

// add remembers what counts a charge.
func (t *recentCharges) add(c, own *stint.Charge) {
	next := recentCharge{
		id:    c.Data().ID,
		own:   own.Data().ID,
		at:    own.Data().At,
		first: [2]uint32{c.Data().Generation, own.Data().Generation},
	}
	if own.Data().Others != nil {
		for i := range own.Data().Others.Generations {
			next.more = append(next.more, [2]uint32{c.Data().GenerationAt(i + 1), own.Data().GenerationAt(i + 1)})
		}
	}
	s, mu := t.slot(c.Data().ID)
	mu.Lock()
	*s = next
	mu.Unlock()
}

// of returns what counts a charge of the store's, or a part of it, if that is known.
func (t *recentCharges) of(c *stint.Charge) (own stint.Charge, ok bool) {
	s, mu := t.slot(c.Data().ID)
	mu.Lock()
	found := *s
	mu.Unlock()
	if found.id != c.Data().ID || c.Data().ID == 0 {
		return own, false
	}
	own = driver.NewCharge(c.Claims(), driver.ChargeData{ID: found.own, At: found.at})
	generation := func(of uint32) uint32 {
		for _, pair := range found.more {
			if pair[0] == of {
				return pair[1]
			}
		}
		return found.first[1]
	}
	own.Data().Generation = generation(c.Data().Generation)
	if c.Data().Others != nil {
		own.Data().Others = &driver.OtherStates{Generations: make([]uint32, len(c.Data().Others.Generations))}
		for i := range own.Data().Others.Generations {
			own.Data().Others.Generations[i] = generation(c.Data().Others.Generations[i])
		}
	}
	return own, true
}

// counterpartKey is the key of a charge of the store: its id, or the instant of a booking, which
// keeps nothing else when it is moved.
func (l *local) counterpartKey(c *stint.Charge, booking bool) uint64 {
	if booking {
		return mix(maphash.String(l.seed, c.Claims()[0].Subject)^uint64(c.Data().At), oddSubject)
	}
	return c.Data().ID
}

// remember remembers what counts a charge of the store locally.
func (l *local) remember(r *stint.Request, d *stint.Decision, own *stint.Charge) {
	booking := r.Mode == stint.ModeReserve && d.RetryAfter > 0
	if r.Terms().Booked != 0 {
		moved := d.Charge
		moved.Data().At = r.Terms().Booked
		if other, ok := l.counterparts.get(l.counterpartKey(&moved, true)); ok {
			_, _ = l.own.Amend(context.Background(), other.own, stint.Amendment{Kind: stint.AmendSettle})
		}
	}
	if booking || anyPlace(r.Claims) {
		l.counterparts.add(l.counterpartKey(&d.Charge, booking), counterpart{own: *own})
	} else {
		l.recentCharges.add(&d.Charge, own)
	}
}
