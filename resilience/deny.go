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

// denialLife is the longest time for which a denial is repeated without asking the store.
const denialLife = time.Second

// denyCache remembers denials, and repeats them while they are in force, for at most a second. So
// requests of a subject that stays above its limit rarely reach the store. Denials made without the
// store are repeated for at most a tenth of a second.
//
// It never admits a request, and it repeats an outdated denial for at most a second. Most changes
// to limits and usage take effect at once: a limit with a different Max or Burst has a different
// key, and a change that may allow a subject more drops the subject's denials in this process and,
// if the change is announced, in other processes.
//
// Of the store's denials, it remembers only those that the store is sure to repeat. These requests
// always go to the store:
//
//   - peeks, reservations, and requests with an ID or a concurrency limit
//   - requests whose denials count toward a ban, until the subject is banned
//   - requests whose cost exceeds half of every limit that denies them: a store does not announce a
//     refund while half of the limit is free, so such a denial could outlast its cause
//
// It is safe for concurrent use and takes no locks.
type denyCache struct {
	seed  maphash.Seed
	start time.Time
	sets  []denialSet // the number of sets is a power of two

	// gens has the generations of subjects. A denial is valid only while the generations of its
	// subjects stay the same. Many subjects share a generation, so dropping the denials of one
	// subject may also drop those of another, whose next request then goes to the store.
	gens [1 << genBits]atomic.Uint32
}

const genBits = 12

// denialSet holds the denials of keys that share an index in the table. It is as large as a cache
// line, so that a lookup of an absent key accesses no other memory.
type denialSet [4]struct {
	key    atomic.Uint64 // only a hint, because key and denial are not written together
	denial atomic.Pointer[denial]
}

// denial is a remembered denial. It is never modified.
//
// The store decided after the request was sent and before its answer arrived. The life of the
// denial (see lifeOf) begins when the request was sent, so the denial does not outlast its cause.
// The wait that it reports begins when the answer arrived, so no caller retries too early.
type denial struct {
	denialID
	until   time.Duration // when the denial expires; until and arrived count from denyCache.start
	arrived time.Duration
	// These are parts of the decision. The cache does not keep the whole decision, because that
	// would retain the request's memory.
	banned, degraded bool
	denier           uint8
	banLeft          time.Duration
	retryAfter       time.Duration
	usages           []stint.Usage
}

// denialID identifies a denial: it holds everything that the denial depends on.
type denialID struct {
	key  uint64 // the hash of the request
	gen  uint32 // the sum of its subjects' generations, which only grow
	held bool   // whether denials of the request may be remembered
}

func newDenyCache(c Config) *denyCache {
	sets := (c.Denials + len(denialSet{}) - 1) / len(denialSet{})
	return &denyCache{
		seed:  maphash.MakeSeed(),
		start: time.Now(),
		sets:  make([]denialSet, 1<<bits.Len(uint(sets-1))),
	}
}

// drop forgets the denials of a subject, or all of them if it is "".
func (c *denyCache) drop(subject string) {
	if subject != "" {
		c.dropSubject(subject)
		return
	}
	for i := range c.gens {
		c.gens[i].Add(1)
	}
}

// dropSubject is like drop, but an empty subject does not drop all denials: a caller may pass it by
// mistake.
func (c *denyCache) dropSubject(subject string) { c.gen(c.hash(subject)).Add(1) }

// hash returns the hash of the name that a subject has in announcements.
func (c *denyCache) hash(subject string) uint64 { return maphash.String(c.seed, keypart.Name(subject)) }

func (c *denyCache) gen(subject uint64) *atomic.Uint32 { return &c.gens[subject>>(64-genBits)] }

func (c *denyCache) set(key uint64) *denialSet { return &c.sets[key&uint64(len(c.sets)-1)] }

// identify returns everything that a denial of the request depends on. It must be called before the
// store is asked. If units are then given back before the store denies the request, the denial is
// not repeated, because the generation has changed.
func (c *denyCache) identify(r *stint.Request) (id denialID) {
	if r.Mode != stint.ModeTake || r.ID != "" || r.Terms().Fit || r.Terms().Lease != 0 {
		return id
	}
	switch {
	case r.Bans == nil:
	case r.Bans.After == 0:
		id.key = 1
	default: // denials count toward a ban, unlike those of requests that only apply bans
		id.key = 2
	}
	costs := false
	for i := range r.Claims {
		claim := &r.Claims[i]
		for k := range claim.Limits {
			if claim.Limits[k].Algorithm == stint.AlgorithmConcurrency {
				return denialID{} // a holder may leave at any time
			}
		}
		costs = costs || contract.Charges(claim)
		subject := c.hash(claim.Subject)
		id.key = hashClaim(c.seed, id.key, subject, claim)
		id.gen += c.gen(subject).Load()
	}
	id.held = costs
	return id
}

// repeat fills in a zero decision from a remembered denial, and reports whether there was one. For
// one claim with few limits it does not allocate.
func (c *denyCache) repeat(id denialID, r *stint.Request, d *stint.Decision, asked time.Time) bool {
	if !id.held {
		return false
	}
	now, set := asked.Sub(c.start), c.set(id.key)
	for i := range set {
		if set[i].key.Load() != id.key {
			continue
		}
		if e := set[i].denial.Load(); e != nil && e.denialID == id && now < e.until {
			e.repeat(r, d, now)
			return true
		}
	}
	return false
}

func (e *denial) repeat(r *stint.Request, d *stint.Decision, now time.Duration) {
	d.Banned, d.Degraded, d.Denier, d.RetryAfter = e.banned, e.degraded, e.denier, e.retryAfter
	d.Charge = contract.ChargeOf(r)
	// Stores count in whole microseconds. The passed time is rounded down, so that no wait ends
	// early. A denial that arrived after now is repeated unchanged.
	passed := max(now-e.arrived, 0).Truncate(time.Microsecond)
	if d.RetryAfter != stint.Never {
		d.RetryAfter = max(d.RetryAfter-passed, time.Microsecond) // zero would not be a denial
	}
	d.BanLeft = max(e.banLeft-passed, 0)
	usages := d.MakeUsages(len(e.usages))
	for i, u := range e.usages {
		if u.RetryAfter != stint.Never {
			u.RetryAfter = max(u.RetryAfter-passed, 0) // this limit may have room before the other limits do
		}
		u.ResetAfter = max(u.ResetAfter-passed, 0)
		usages[i] = u
	}
}

// remember keeps the decision on a request, if it is a denial. id and asked must have been
// determined before the store was asked. The denial replaces the one with the same key or, if there
// is none, the one in the set that expires first. If several goroutines call remember at the same
// time, a denial may be lost.
func (c *denyCache) remember(id denialID, r *stint.Request, d *stint.Decision, asked time.Time) {
	if d.Allowed || !id.held {
		return
	}
	life := lifeOf(r, d)
	if life <= 0 {
		return
	}
	e := &denial{denialID: id, until: asked.Sub(c.start) + life, arrived: time.Since(c.start), banned: d.Banned,
		degraded: d.Degraded, denier: d.Denier, banLeft: d.BanLeft, retryAfter: d.RetryAfter,
		usages: slices.Clone(d.Usages())}
	set, slot, soonest := c.set(id.key), 0, time.Duration(math.MaxInt64)
	for i := range set {
		old := set[i].denial.Load()
		if old != nil && old.key == id.key {
			slot = i
			break
		}
		if old == nil {
			old = &denial{}
		}
		if old.until < soonest {
			slot, soonest = i, old.until
		}
	}
	set[slot].denial.Store(e)
	set[slot].key.Store(id.key)
}

// lifeOf returns how long a denial may be repeated, or zero if it is not remembered.
func lifeOf(r *stint.Request, d *stint.Decision) time.Duration {
	if d.Unavailable || d.Repeat {
		return 0
	}
	life := denialLife
	if anyLeased(r) || d.Degraded {
		life /= 10 // the next block may have units soon, or the store did not decide
	}
	life = min(life, d.RetryAfter)
	if d.Banned {
		life = min(life, d.BanLeft)
	} else {
		life = min(life, announced(r, d))
	}
	if strikes(r) {
		if !d.Banned {
			return 0 // the next denial is a strike, which the store must count
		}
		// The denial that led to the ban may report a longer wait than the ban. When the ban ends,
		// strikes count again.
		for _, ban := range r.Bans.Durations {
			life = min(life, ban)
		}
	}
	return life
}

// announced returns how long the request is denied by limits whose refunds the store announces:
// those whose capacity is at least twice the cost minus one. If a limit always denies the request,
// because its capacity is below the cost, announced returns denialLife.
func announced(r *stint.Request, d *stint.Decision) (longest time.Duration) {
	usages := d.Usages()
	for i := range r.Claims {
		c := &r.Claims[i]
		n := min(len(c.Limits), len(usages))
		for k, u := range usages[:n] {
			switch capacity := c.Limits[k].Capacity(); {
			case u.RetryAfter == stint.Never:
				return denialLife
			case c.CostOf(&c.Limits[k]) <= capacity/2+capacity%2:
				longest = max(longest, u.RetryAfter)
			}
		}
		usages = usages[n:]
	}
	return longest
}

// strikes reports whether a denial of the request may count toward a ban.
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

// These are arbitrary odd numbers for the steps of a hash. No field of a valid claim reaches their
// highest bits, so equal values in different fields hash differently, and mix never multiplies by
// zero.
const (
	oddSubject = 0xa0761d6478bd642f
	oddScope   = 0xe7037ed1a0b428db
	oddWindow  = 0x8ebc6af09c88c6e3
	oddKind    = 0x9fb21c651e98df25
	oddName    = 0xd6e8feb86659fd93

	// sharedBit is added to the cost of a claim that is Shared. It is above any cost, and below the
	// highest bits.
	sharedBit = 1 << 54
)

// hashClaim adds all fields of a claim to a hash, given the hash of its subject. The seed with
// which strings are hashed is secret, so a client cannot choose two claims that collide.
func hashClaim(seed maphash.Seed, h, subject uint64, c *stint.Claim) uint64 {
	cost := uint64(c.Cost)
	if c.Shared {
		cost |= sharedBit
	}
	h = mix(h^subject, oddSubject^cost)
	if c.Scope != "" {
		h = mix(h^maphash.String(seed, c.Scope), oddScope)
	}
	for i := range c.Limits {
		l := &c.Limits[i]
		kind := uint64(l.Algorithm) << 1
		if l.Leased {
			kind++
		}
		h = mix(h^uint64(l.Max), oddWindow^uint64(l.Window))
		h = mix(h^uint64(l.Burst), oddKind^kind)
		if l.Name != "" {
			h = mix(h^maphash.String(seed, l.Name), oddName)
		}
		if c.Costs != nil {
			h = mix(h^uint64(c.CostOf(l)), oddName)
		}
	}
	return h
}

// mix multiplies and folds, as wyhash does: every bit of the result depends on every bit of both
// operands.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}
