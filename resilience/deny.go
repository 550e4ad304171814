package resilience

import (
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/keypart"
)

// denialLife is the longest that a denial is repeated without asking the store.
const denialLife = time.Second

// denyCache remembers denials, and repeats them for as long as they are in force, but for no longer
// than a second: subjects that keep asking above their limit hardly reach the store.
//
// It never admits anything by itself, and it never denies wrongly for more than a second. Most
// changes take effect at once: a limit with another Max or Burst has another key, and a refund,
// settlement, release, reset, ban or unban through this cache drops the denials of its subjects.
// drop is for those that other processes make. Only what is not announced lasts until the second is
// over.
//
// Only what is sure to be denied again is remembered. Requests with an ID, peeks, reservations and
// concurrency limits always go to the store, and so do requests whose denial counts towards a ban,
// until they are banned. What is denied for a cost above half of a limit is not remembered either:
// so a refund need not be announced while half of a limit is free.
//
// It is safe for concurrent use and takes no locks.
type denyCache struct {
	seed  maphash.Seed
	start time.Time

	sets []denialSet // as many as a power of two

	// What is dropped is not searched for: the generation of its subject outdates it. Many subjects
	// share one, so a drop may hit another subject, which then asks the store once more.
	gens   [1 << genBits]atomic.Uint32
	allGen atomic.Uint32
}

const genBits = 12

// denialSet holds the denials of keys that share an index in the table. It is as large as a cache
// line: to find that a key is not there costs no other access to memory.
type denialSet [4]denialSlot

// denialSlot holds one denial. The key beside the pointer is only a hint, for the two are not
// written at once; the key in the denial counts.
type denialSlot struct {
	key    atomic.Uint64
	denial atomic.Pointer[denial]
}

// denial is a denial of the store. It is not changed once it is in the table.
//
// When the store decided is not known: at some time between the sending of the request and the
// arrival of its answer. Each use takes the end that is safe. The denial ends a life after the
// sending, so it never outlasts its cause; and the wait that it reports shrinks only from the
// arrival on, so no caller comes back too early.
type denial struct {
	denialID
	until    time.Duration // sending + life
	received time.Duration
	// What the decision said: a whole one would keep the memory of its request.
	banned, degraded bool
	denier           uint8
	banLeft          time.Duration
	retryAfter       time.Duration
	usages           []stint.Usage
}

func newDenyCache(c Config) *denyCache {
	sets := (c.Denials + len(denialSet{}) - 1) / len(denialSet{})
	return &denyCache{
		seed:  maphash.MakeSeed(),
		start: time.Now(),
		sets:  make([]denialSet, 1<<bits.Len(uint(sets-1))),
	}
}

// repeat answers a request from memory, and reports whether it did.
func (c *denyCache) repeat(id denialID, r *stint.Request, d *stint.Decision, asked time.Time) bool {
	now := asked.Sub(c.start)
	e := c.find(id, now)
	if e == nil {
		return false
	}
	e.repeat(r, d, now)
	return true
}

// remember keeps a decision if it is a denial. The generation and the time are those of before
// sending: a give-back that the store may not have seen when it denied changes the generation
// later.
func (c *denyCache) remember(id denialID, r *stint.Request, d *stint.Decision, asked time.Time) {
	if d.Allowed || !id.held {
		return
	}
	if life := lifeOf(r, d); life > 0 {
		c.keep(&denial{denialID: id, until: asked.Sub(c.start) + life, received: time.Since(c.start), banned: d.Banned,
			degraded: d.Degraded, denier: d.Denier, banLeft: d.BanLeft, retryAfter: d.RetryAfter,
			usages: slices.Clone(d.Usages())})
	}
}

// drop forgets the denials of a subject, or all of them if it is "". It is for changes that were
// not made through this cache; see [New].
func (c *denyCache) drop(subject string) {
	if subject == "" {
		c.allGen.Add(1)
	} else {
		c.dropSubject(subject)
	}
}

// dropSubject is drop for a caller's subject: if that is empty, by mistake, nobody else pays.
func (c *denyCache) dropSubject(subject string) {
	c.gen(c.hash(subject)).Add(1)
}

// hash is that of a subject, by the name under which its changes are announced.
func (c *denyCache) hash(subject string) uint64 { return maphash.String(c.seed, keypart.Name(subject)) }

// gen returns the generation of a subject, given its hash.
func (c *denyCache) gen(subject uint64) *atomic.Uint32 {
	return &c.gens[subject>>(64-genBits)]
}

// denialID is what a denial depends on.
type denialID struct {
	key  uint64 // the hash of the request
	gen  uint32 // the generation of its subjects
	held bool   // denials of the request are remembered
}

// identify returns what a denial of the request depends on. Generations only grow, so their sum
// changes whenever one of them does.
func (c *denyCache) identify(r *stint.Request) (id denialID) {
	if r.Mode != stint.ModeTake || r.ID != "" || r.Terms().Fit || r.Terms().Lease != 0 {
		return id
	}
	switch {
	case r.Bans == nil:
	case r.Bans.After == 0:
		id.key = 1
	default: // denials count, unlike those of requests that only apply bans
		id.key = 2
	}
	id.gen = c.allGen.Load()
	costs := false
	for i := range r.Claims {
		claim := &r.Claims[i]
		for k := range claim.Limits {
			if claim.Limits[k].Algorithm == stint.AlgorithmConcurrency {
				return denialID{} // when a holder leaves is not known
			}
		}
		costs = costs || claim.Cost > 0
		subject := c.hash(claim.Subject)
		id.key = hashClaim(c.seed, id.key, subject, claim)
		id.gen += c.gen(subject).Load()
	}
	id.held = costs
	return id
}

// lifeOf is how long a denial is sure to be one, or zero if it is not to be held.
func lifeOf(r *stint.Request, d *stint.Decision) time.Duration {
	if d.Unavailable || d.Repeat {
		return 0
	}
	life := denialLife
	if anyLeased(r) || d.Degraded {
		life /= 10 // our own next block may be what denied, or the decision was made without the store
	}
	if d.RetryAfter != stint.Never {
		life = min(life, d.RetryAfter)
	}
	if d.Banned {
		life = min(life, d.BanLeft)
	} else {
		life = min(life, announced(r, d))
	}
	if strikes(r) {
		if !d.Banned {
			return 0 // the next denial is a strike: the store has to know
		}
		// The denial that led to the ban may report a longer wait than the ban. When the ban ends,
		// strikes count again.
		for _, ban := range r.Bans.Durations {
			life = min(life, ban)
		}
	}
	return life
}

// announced is for how long the request is denied by limits whose refunds are announced: those of
// which it wants no more than half, rounded up. A limit that is smaller than the cost never has
// room.
func announced(r *stint.Request, d *stint.Decision) (longest time.Duration) {
	usages := d.Usages()
	for i := range r.Claims {
		c := &r.Claims[i]
		n := min(len(c.Limits), len(usages))
		for k, u := range usages[:n] {
			switch capacity := c.Limits[k].Capacity(); {
			case u.RetryAfter == stint.Never:
				return denialLife
			case c.Cost <= capacity/2+capacity%2:
				longest = max(longest, u.RetryAfter)
			}
		}
		usages = usages[n:]
	}
	return longest
}

// strikes reports whether a denial of the request may count towards a ban.
func strikes(r *stint.Request) bool {
	if r.Bans == nil || r.Bans.After == 0 {
		return false
	}
	for i := range r.Claims {
		if !r.Claims[i].Shared {
			return true
		}
	}
	return false
}

// find returns the denial that is still in force, or nil.
func (c *denyCache) find(id denialID, now time.Duration) *denial {
	if !id.held {
		return nil
	}
	set := c.set(id.key)
	for i := range set {
		if set[i].key.Load() != id.key {
			continue
		}
		if e := set[i].denial.Load(); e != nil && e.denialID == id && now < e.until {
			return e
		}
	}
	return nil
}

// keep puts a denial into the table: it replaces an older one of the same key, else the one that
// ends first. If several goroutines do so at the same time, at worst a denial is lost or held
// twice.
func (c *denyCache) keep(e *denial) {
	set := c.set(e.key)
	slot, soonest := 0, time.Duration(math.MaxInt64)
	for i := range set {
		until := time.Duration(-1) // of a free slot
		if old := set[i].denial.Load(); old != nil {
			if old.key == e.key {
				slot = i
				break
			}
			until = old.until
		}
		if until < soonest {
			slot, soonest = i, until
		}
	}
	set[slot].denial.Store(e)
	set[slot].key.Store(e.key)
}

func (c *denyCache) set(key uint64) *denialSet {
	return &c.sets[key&uint64(len(c.sets)-1)]
}

// repeat answers a request with the denial as it is now, in a zero decision. For one claim with few
// limits it does not allocate.
func (e *denial) repeat(r *stint.Request, d *stint.Decision, now time.Duration) {
	d.Banned, d.Degraded, d.Denier, d.RetryAfter = e.banned, e.degraded, e.denier, e.retryAfter
	d.Charge = contract.ChargeOf(r)
	// Whole microseconds, as stores count; rounded down, so that no wait ends early. The denial may
	// be newer than now: then no time has passed.
	passed := max(now-e.received, 0).Truncate(time.Microsecond)
	if d.RetryAfter != stint.Never {
		d.RetryAfter = max(d.RetryAfter-passed, time.Microsecond) // zero would be no denial
	}
	d.BanLeft = max(e.banLeft-passed, 0)
	usages := d.MakeUsages(len(e.usages))
	for i, u := range e.usages {
		if u.RetryAfter != stint.Never {
			u.RetryAfter = max(u.RetryAfter-passed, 0) // this limit may have room before the others
		}
		u.ResetAfter = max(u.ResetAfter-passed, 0)
		usages[i] = u
	}
}
