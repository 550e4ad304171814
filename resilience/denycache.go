package resilience

import (
	"context"
	"hash/maphash"
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/keypart"
)

// DefaultDenials is how many denials a [DenyCache] holds unless told otherwise.
const DefaultDenials = 1 << 16

// denialLife is the longest that a denial is repeated without asking the store.
const denialLife = time.Second

// DenyCacheConfig sets up a [DenyCache]. Its zero value is ready for use.
type DenyCacheConfig struct {
	// Entries is how many denials are held, rounded up to a power of two. Zero
	// means DefaultDenials. Each takes some 240 bytes, and 24 more for every limit of
	// its request past the third.
	Entries int
	// Observer hears of every denial that was answered from memory. It may be nil.
	Observer Observer
}

// DenyCache is a [stint.Store] that remembers denials of the store it wraps, and repeats
// them for as long as they are in force, but for no longer than a second: those who
// hammer on a limit hardly reach the store.
//
// It never admits anything by itself, and it never denies wrongly for more than a second.
// Most changes take effect at once: a limit with another Max or Burst is another
// question, and a refund, settlement, release, reset, ban or unban through this cache
// drops the denials of its subjects. For those that other processes make there is
// [DenyCache.Drop]. Only what nobody tells of lasts until the second is over.
//
// Only what is sure to be denied again is remembered. Requests with an ID, looks,
// reservations and concurrency limits always go to the store, and so do requests whose
// denial counts towards a ban, until they are banned. What is denied for a cost above half of
// a limit is not remembered either: a refund need then not be announced while
// half of a limit is free.
//
// It is safe for concurrent use and takes no locks.
type DenyCache struct {
	inner    stint.Store
	observer Observer
	seed     maphash.Seed
	start    time.Time
	clock    func() time.Duration // for tests; nil means the time since start

	sets []denialSet // as many as a power of two

	// What is dropped is not searched for: the generation of its subject outdates it.
	// Many subjects share one, so a drop may hit a stranger, who then asks the store once
	// more.
	gens   [1 << genBits]atomic.Uint32
	allGen atomic.Uint32
}

var _ stint.Store = (*DenyCache)(nil)

const genBits = 12

// denialSet holds the denials of keys that share a place in the table. It is as large as
// a cache line: to find that a key is not there costs no other access to memory.
type denialSet [4]denialSlot

// denialSlot is one place. The key stands beside the pointer as a hint only, for
// the two are not written at once; that in the denial counts.
type denialSlot struct {
	key    atomic.Uint64
	denial atomic.Pointer[denial]
}

// denial is what the store said. It is not changed once it is in the table.
//
// When the store decided is not known: somewhere between the sending of the request and
// the receiving of its answer. Each use takes the end that is safe. The denial ends a life
// after the sending, so it never outlasts what made it; and what it tells callers to wait
// shrinks only from the receiving on, so nobody is told to come too early.
type denial struct {
	key      uint64
	gen      uint32
	until    time.Duration // sending + life
	received time.Duration
	decision stint.Decision // without its Charge, which would keep the memory of a request
}

// NewDenyCache returns a cache over a store.
func NewDenyCache(inner stint.Store, c DenyCacheConfig) *DenyCache {
	if c.Entries <= 0 {
		c.Entries = DefaultDenials
	}
	sets := (c.Entries + len(denialSet{}) - 1) / len(denialSet{})
	return &DenyCache{
		inner:    inner,
		observer: c.Observer,
		seed:     maphash.MakeSeed(),
		start:    time.Now(),
		sets:     make([]denialSet, 1<<bits.Len(uint(sets-1))),
	}
}

// Take implements [stint.Store].
func (c *DenyCache) Take(ctx context.Context, r stint.Request) (d stint.Decision, err error) {
	key, gen, ok := c.identify(&r)
	if !ok {
		return c.inner.Take(ctx, r)
	}
	// The generation and the time are read before sending. A give-back that the store may
	// not have seen when it denied changes the generation later than this.
	sent := c.now()
	if e := c.find(key, gen, sent); e != nil {
		if c.observer != nil {
			saved(c.observer, r, ByDenyCache)
		}
		e.repeat(&r, &d, sent)
		return d, nil
	}
	d, err = c.inner.Take(ctx, r)
	if err == nil && !d.Allowed {
		if life := lifeOf(&r, &d); life > 0 {
			c.keep(&d, &denial{key: key, gen: gen, until: sent + life, received: c.now()})
		}
	}
	return d, err
}

// Amend implements [stint.Store].
func (c *DenyCache) Amend(ctx context.Context, charge stint.Charge, a stint.Amendment) (bool, error) {
	changed, err := c.inner.Amend(ctx, charge, a)
	if a.Kind != stint.Extend {
		// Only now is there room: what was denied until here is outdated. That holds
		// after an error as well, which leaves open whether anything was given back.
		c.drop(charge.Claim.Subject)
		and := charge.And()
		for i := range and {
			c.drop(and[i].Subject)
		}
	}
	return changed, err
}

// Command implements [stint.Store].
func (c *DenyCache) Command(ctx context.Context, cmd stint.Command) error {
	err := c.inner.Command(ctx, cmd)
	c.drop(cmd.Subject) // after the call and whatever came of it, as in Amend
	return err
}

// Drop forgets the denials of a subject, or all of them if it is "". It is for changes
// that were not made through this cache; see [Announcer].
func (c *DenyCache) Drop(subject string) {
	if subject == "" {
		c.allGen.Add(1)
	} else {
		c.drop(subject)
	}
}

// drop is Drop for a caller's subject: if that is empty, by mistake, nobody else pays.
func (c *DenyCache) drop(subject string) {
	c.gen(c.hash(subject)).Add(1)
}

// hash is that of a subject, by the name under which its changes are announced.
func (c *DenyCache) hash(subject string) uint64 { return maphash.String(c.seed, keypart.Name(subject)) }

// gen returns the generation of a subject, given its hash.
func (c *DenyCache) gen(subject uint64) *atomic.Uint32 {
	return &c.gens[subject>>(64-genBits)]
}

// identify returns the hash of what a denial of the request depends on, and the
// generation of its subjects. Generations only grow, so their sum changes whenever one of
// them does. It reports false for requests whose denials are not held.
func (c *DenyCache) identify(r *stint.Request) (key uint64, gen uint32, ok bool) {
	if r.Mode != stint.Take || r.ID != "" || r.Fit || r.Lease != 0 {
		return 0, 0, false
	}
	switch {
	case r.Bans == nil:
	case r.Bans.After == 0:
		key = 1
	default: // denials count: those of requests that only obey bans are not for this one
		key = 2
	}
	gen = c.allGen.Load()
	costs := false
	for i := range 1 + len(r.And) {
		claim := r.ClaimAt(i)
		for k := range claim.Limits {
			if claim.Limits[k].Algorithm == stint.Concurrency {
				return 0, 0, false // when a holder leaves is not known
			}
		}
		costs = costs || claim.Cost > 0
		subject := c.hash(claim.Subject)
		key = hashClaim(c.seed, key, subject, claim)
		gen += c.gen(subject).Load()
	}
	return key, gen, costs
}

// lifeOf is how long a denial is sure to be one, or zero if it is not to be held.
func lifeOf(r *stint.Request, d *stint.Decision) time.Duration {
	if d.Unavailable || d.Repeat {
		return 0
	}
	life := denialLife
	if anyLeased(r) || d.Degraded {
		life /= 10 // what denied may be our own next block, which is about to come, or less is known than the store knows
	}
	if d.RetryAfter != stint.Never {
		life = min(life, d.RetryAfter)
	}
	if !d.Banned {
		life = min(life, announced(r, d))
	}
	if strikes(r) {
		if !d.Banned {
			return 0 // the next denial is a strike: the store has to know
		}
		// The denial that led to the ban may tell to wait for longer than the ban. When
		// that ends strikes count again.
		for _, ban := range r.Bans.Durations {
			life = min(life, ban)
		}
	}
	return life
}

// announced is for how long the request is denied by limits of which it is announced when they
// get room: those of which it wants no more than half, rounded up. A limit that is smaller
// than the cost never has room.
func announced(r *stint.Request, d *stint.Decision) (longest time.Duration) {
	usages := d.Usages()
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
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
	for i := range 1 + len(r.And) {
		if !r.ClaimAt(i).Shared {
			return true
		}
	}
	return false
}

// find returns the denial of a key that is still in force, or nil.
func (c *DenyCache) find(key uint64, gen uint32, now time.Duration) *denial {
	set := c.set(key)
	for i := range set {
		if set[i].key.Load() != key {
			continue
		}
		if e := set[i].denial.Load(); e != nil && e.key == key && e.gen == gen && now < e.until {
			return e
		}
	}
	return nil
}

// keep puts a denial into the table: in the place of an older one of the same key, else of
// the one that ends first. Others may be at it at the same time; at worst a denial is lost
// or held twice.
func (c *DenyCache) keep(d *stint.Decision, e *denial) {
	e.decision = *d
	e.decision.Charge = stint.Charge{}
	copy(e.decision.Grow(len(d.Usages())), d.Usages()) // the caller's may be changed
	set := c.set(e.key)
	place, soonest := 0, time.Duration(math.MaxInt64)
	for i := range set {
		until := time.Duration(-1) // of a free place
		if old := set[i].denial.Load(); old != nil {
			if old.key == e.key {
				place = i
				break
			}
			until = old.until
		}
		if until < soonest {
			place, soonest = i, until
		}
	}
	set[place].denial.Store(e)
	set[place].key.Store(e.key)
}

func (c *DenyCache) set(key uint64) *denialSet {
	return &c.sets[key&uint64(len(c.sets)-1)]
}

// repeat answers a request with the denial as it is now. For one claim with few limits it
// does not allocate.
func (e *denial) repeat(r *stint.Request, d *stint.Decision, now time.Duration) {
	*d = e.decision
	d.Charge = stint.ChargeOf(r)
	// Whole microseconds, as stores count; rounded down, so that no wait ends early. The
	// denial may be newer than now: then no time has passed.
	passed := max(now-e.received, 0).Truncate(time.Microsecond)
	if d.RetryAfter != stint.Never {
		d.RetryAfter = max(d.RetryAfter-passed, time.Microsecond) // zero would be no denial
	}
	usages := d.Grow(len(e.decision.Usages()))
	for i, u := range e.decision.Usages() {
		if u.RetryAfter != stint.Never {
			u.RetryAfter = max(u.RetryAfter-passed, 0) // this limit may have room before the others
		}
		u.ResetAfter = max(u.ResetAfter-passed, 0)
		usages[i] = u
	}
}

// now is the time since the cache was made, by the clock that does not step.
func (c *DenyCache) now() time.Duration {
	if c.clock != nil {
		return c.clock()
	}
	return time.Since(c.start)
}
