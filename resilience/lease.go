package resilience

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
)

// lease is what one process holds of one question: subject, scope and limits.
type lease struct {
	hash  uint64
	bans  bool
	claim stint.Claim // its Cost is not used
	next  atomic.Pointer[lease]

	window   time.Duration // the shortest
	capacity int64         // the smallest

	stock     atomic.Pointer[leaseStock] // what to serve from; nil if nothing
	renewing  atomic.Bool
	notBefore atomic.Int64 // when to renew again at the earliest, monotonic

	// Of requests that went to the store.
	lastMiss  atomic.Int64 // monotonic
	missUnits atomic.Int64
	largest   atomic.Int64 // cost, fading

	mu      sync.Mutex
	gone    bool // not in the table any more
	back    bool // if gone: give back what a renewal still brings
	blocks  []*leaseBlock
	settled map[uint64]int64 // charges that were settled, with their instants
	spent   int64            // units of blocks that are no more
	usages  []stint.Usage    // as of the latest block
	usageAt int64

	// What is known of the demand, and what follows from it.
	rate                 float64 // units per second
	born, counted        int64   // when it began, and when demand was last counted
	wanted               int64   // the count
	low                  int64   // with less in stock than that it is time to renew
	lead                 int64   // and that much before the end of the last block
	lastWanted, lastSeen int64   // for the janitor: when the count was last seen to change, and the count
}

// leaseBlock is a number of units that the store has charged, to be used before its end.
type leaseBlock struct {
	end     leaseTime
	granted int64
	charge  stint.Charge
	rest    *stint.Rest // of the charges that are served from it
	debt    int64       // units used beyond those granted, after settling upwards; under the lease's lock

	_     [64]byte // units has a cache line of its own: all cores write it
	units atomic.Int64
	_     [64]byte
}

// leaseClosed is in the units of a block that has been given back: no taker, however late
// it comes, finds any there.
const leaseClosed = math.MinInt64 / 2

// maxBlocks is how many blocks a lease has at most. Two or three are usual.
const maxBlocks = 8

// leaseStock is what a lease serves from. It is not changed but replaced.
type leaseStock struct {
	shelves []leaseShelf // by their blocks' ends
	usages  []stint.Usage
	usageAt int64
}

// leaseShelf is a block, and when to think of the next one while serving from it.
type leaseShelf struct {
	*leaseBlock
	low     int64 // with fewer units left
	renewAt int64 // from then on
}

func newLease(hash uint64, c *stint.Claim, bans bool) *lease {
	ls := &lease{
		hash: hash,
		bans: bans,
		claim: stint.Claim{
			Subject: strings.Clone(c.Subject),
			Scope:   strings.Clone(c.Scope),
			Limits:  slices.Clone(c.Limits),
		},
		window:   stint.MaxWindow,
		capacity: stint.MaxUnits,
	}
	for i := range c.Limits {
		ls.window = min(ls.window, c.Limits[i].Window)
		ls.capacity = min(ls.capacity, c.Limits[i].Capacity())
	}
	return ls
}

// begin notes what led to the lease: a miss of that cost, the second within a time. The
// first is taken to have cost as much.
func (ls *lease) begin(cost, since int64, now leaseTime) {
	ls.rate = float64(cost) / seconds(since)
	ls.missUnits.Store(cost)
	ls.born, ls.counted, ls.lastWanted = now.mono, now.mono, now.mono
	ls.lastMiss.Store(now.mono)
}

// serve takes a claim's cost from the block that ends first. It reports whether it is time to
// renew.
func (ls *lease) serve(c *stint.Claim, now leaseTime, d *stint.Decision) (served, low bool) {
	s := ls.stock.Load()
	if s == nil {
		return false, false
	}
	for i := range s.shelves {
		b := &s.shelves[i]
		left, ok := b.take(c.Cost, now)
		if !ok {
			continue
		}
		unspent := left
		for j := range s.shelves {
			if j != i {
				unspent += max(0, s.shelves[j].units.Load())
			}
		}
		d.Allowed = true
		// A random id is as unique as a counter's, and no cores meet over it.
		d.Charge = stint.Charge{ID: rand.Uint64() | 1, At: b.charge.At, Generation: b.charge.Generation, Claim: *c, Rest: b.rest}
		usages := d.Grow(len(s.usages))
		for k := range usages {
			usages[k].Used = max(c.Cost, s.usages[k].Used-unspent)
			usages[k].ResetAfter = max(0, s.usages[k].ResetAfter-time.Duration(now.mono-s.usageAt))
		}
		return true, left < b.low || now.mono >= b.renewAt
	}
	return false, false
}

// take takes n units if there are as many, and returns how many are left.
func (b *leaseBlock) take(n int64, now leaseTime) (left int64, ok bool) {
	if !b.live(now) || b.units.Load() < n {
		return 0, false
	}
	if left = b.units.Add(-n); left >= 0 {
		return left, true
	}
	b.units.Add(n)
	return 0, false
}

func (b *leaseBlock) live(now leaseTime) bool { return now.mono < b.end.mono && now.wall < b.end.wall }

// has is how many units there are. Takers that are about to put back what was
// too much for them may make it seem less.
func (b *leaseBlock) has() int64 { return max(0, b.units.Load()) }

// missed notes a request that went to the store, and reports whether to renew: not for one
// alone in the length of a lease.
func (ls *lease) missed(cost int64, now leaseTime, length time.Duration) bool {
	if cost > ls.capacity {
		return false // it will never fit
	}
	ls.missUnits.Add(cost)
	if cost > ls.largest.Load() {
		ls.largest.Store(cost)
	}
	return now.mono-ls.lastMiss.Swap(now.mono) <= int64(length) || ls.stock.Load() != nil
}

func (ls *lease) mayRenew(now leaseTime) bool {
	return now.mono >= ls.notBefore.Load() && !ls.renewing.Load()
}

// Bounds on the length of a lease.
const (
	minLease = 20 * time.Millisecond
	maxLease = 5 * time.Second
)

// length is how long a block lasts: short, for its units count for that much longer, but long
// enough for a few round trips. It is no longer than half a window.
func (ls *lease) length(roundTrip int64) time.Duration {
	d := max(ls.window/20, 4*time.Duration(roundTrip), minLease)
	return min(d, maxLease, ls.window/2).Truncate(time.Microsecond)
}

// tooShort reports that a block would be as good as over when it is here.
func (ls *lease) tooShort(roundTrip int64) bool {
	return ls.length(roundTrip) < 2*time.Duration(roundTrip)
}

// plan says how many units to ask for, and for how long. If it is none, it says when to
// think of it again. The lock is held.
func (ls *lease) plan(now leaseTime, roundTrip int64) (ask int64, length, pause time.Duration) {
	length = ls.length(roundTrip)
	pause = max(length/32, time.Millisecond)
	if ls.tooShort(roundTrip) {
		return 0, length, pause
	}
	cost := max(1, ls.largest.Load())
	ls.largest.Store(cost - cost/64)
	if ls.total()-ls.wanted < 2*cost {
		return 0, length, pause // so little since the last time is cheaper from the store
	}
	ls.count(now, length)
	held, debt := ls.usable(now)
	// Time to renew is when what is left will be gone in two round trips, and
	// then for what is wanted from now until that is so again, half a lease later.
	margin := min(5*time.Millisecond, length/8)
	lead := min(2*time.Duration(roundTrip)+margin, length/2)
	ls.lead = int64(lead)
	ls.low = min(ls.capacity, max(cost, ls.demand(0, lead, cost)))
	target := max(ls.low+cost, ls.demand(0.25, 2*time.Duration(roundTrip)+length/2, cost))
	// If there is enough, the new marks tell when there is not.
	return min(max(0, target-held)+debt, ls.capacity), length, 0
}

// demand is how much will be wanted in a time, and a part more, or as much more as chance may
// bring: requests that come independently spread by the square root of their number.
func (ls *lease) demand(part float64, in time.Duration, cost int64) int64 {
	units := ls.rate * seconds(int64(in))
	more := max(part*units, 2*math.Sqrt(units*float64(cost)))
	return int64(math.Ceil(min(units+more, float64(ls.capacity))))
}

// count brings the rate up to date. The lock is held.
func (ls *lease) count(now leaseTime, length time.Duration) {
	passed := now.mono - ls.counted
	if passed <= 0 {
		return
	}
	total := ls.total()
	fresh := max(0, total-ls.wanted)
	// At first it is the mean of all there was, later of the last half lease or so; what chance does
	// not explain is believed at once. A few requests that come in the same moment
	// say little.
	latest := float64(fresh) / seconds(max(passed, int64(length)/8))
	weight := max(1-math.Exp(-float64(passed)/float64(max(length/2, 200*time.Millisecond))), float64(passed)/float64(now.mono-ls.born))
	expected, cost := ls.rate*seconds(passed), float64(max(1, ls.largest.Load()))
	if latest > ls.rate && float64(fresh) > expected+4*math.Sqrt((expected+cost)*cost) {
		weight = 1
	}
	ls.rate += weight * (latest - ls.rate)
	ls.counted, ls.wanted = now.mono, total
}

// total is how many units were ever wanted. The lock is held.
func (ls *lease) total() int64 {
	total := ls.spent + ls.missUnits.Load()
	for _, b := range ls.blocks {
		total += b.granted - b.has()
	}
	return total
}

// usable is how many of the units in stock will be used before their block ends, as things go,
// and how many are owed. The lock is held.
func (ls *lease) usable(now leaseTime) (held, debt int64) {
	for _, b := range ls.blocks {
		debt += b.debt
		if b.live(now) {
			can := int64(ls.rate*seconds(b.end.mono-now.mono)) - held
			held += max(0, min(b.has(), can))
		}
	}
	return held, debt
}

// add takes a new block into stock. The lock is held.
func (ls *lease) add(b *leaseBlock) {
	ls.blocks = append(ls.blocks, b)
	slices.SortStableFunc(ls.blocks, func(a, b *leaseBlock) int { return int(max(-1, min(1, a.end.mono-b.end.mono))) })
	ls.cover()
}

// cover pays what blocks owe with what others have. The lock is held.
func (ls *lease) cover() {
	for _, b := range ls.blocks {
		for _, other := range ls.blocks {
			if b.debt > 0 && other != b {
				b.debt -= other.takeUpTo(b.debt)
			}
		}
	}
}

// takeUpTo takes n units, or as many as there are, and returns how many.
func (b *leaseBlock) takeUpTo(n int64) int64 {
	for {
		has := b.units.Load()
		k := min(has, n)
		if k <= 0 {
			return 0
		}
		if b.units.CompareAndSwap(has, has-k) {
			return k
		}
	}
}

// restock publishes what can be served from. The lock is held.
func (ls *lease) restock(now leaseTime) {
	s := &leaseStock{usages: ls.usages, usageAt: ls.usageAt}
	later := int64(0) // in blocks that end later
	for _, b := range slices.Backward(ls.blocks) {
		if !b.live(now) {
			continue
		}
		shelf := leaseShelf{leaseBlock: b, low: ls.low - later, renewAt: math.MaxInt64}
		if later < ls.low {
			shelf.renewAt = b.end.mono - ls.lead
		}
		s.shelves = append(s.shelves, shelf)
		later += b.has()
	}
	slices.Reverse(s.shelves)
	if len(s.shelves) == 0 {
		s = nil
	}
	ls.stock.Store(s)
}

// giveBack is a block that has ended, and what was used of it.
type giveBack struct {
	charge stint.Charge
	cost   int64
}

// retire ends a block that is no longer in the list. What was taken before counts as used,
// nothing can be taken any more. It reports whether the store needs to know. The lock is held.
func (ls *lease) retire(b *leaseBlock) (g giveBack, differs bool) {
	used := b.granted - max(0, b.units.Swap(leaseClosed))
	ls.spent += used
	if !slices.ContainsFunc(ls.blocks, func(o *leaseBlock) bool { return o.charge.At == b.charge.At }) {
		for id, at := range ls.settled {
			if at == b.charge.At {
				delete(ls.settled, id)
			}
		}
	}
	return giveBack{b.charge, min(used+b.debt, stint.MaxUnits)}, used+b.debt != b.granted
}

// end ends the lease for good, and returns what there is to give back if that is wanted.
func (ls *lease) end(back bool) (backs []giveBack) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.gone {
		ls.back = ls.back && back
		return nil
	}
	ls.gone, ls.back = true, back
	ls.stock.Store(nil)
	blocks := ls.blocks
	ls.blocks = nil
	for _, b := range blocks {
		if g, differs := ls.retire(b); differs && back {
			backs = append(backs, g)
		}
	}
	return backs
}

// settle replaces the cost of a charge by the true one, in the block that it came from. It
// reports whether there is that block, and whether anything changed.
func (ls *lease) settle(c *stint.Charge, cost int64) (found, applied bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	i := slices.IndexFunc(ls.blocks, func(b *leaseBlock) bool { return b.charge.At == c.At })
	if i < 0 {
		return false, false
	}
	b := ls.blocks[i]
	if _, again := ls.settled[c.ID]; again || len(ls.settled) >= stint.MaxSettled*len(ls.blocks) {
		return true, false
	}
	if more := cost - c.Claim.Cost; more > 0 {
		if more > stint.MaxUnits-b.granted-b.debt {
			return true, false
		}
		b.debt += more - b.takeUpTo(more)
		ls.cover()
	} else {
		if -more > b.granted-b.has()+b.debt {
			return true, false // more than anybody has used
		}
		pay := min(-more, b.debt)
		b.debt -= pay
		b.units.Add(-more - pay)
	}
	if ls.settled == nil {
		ls.settled = map[uint64]int64{}
	}
	ls.settled[c.ID] = c.At
	return true, true
}

func seconds(ns int64) float64 { return float64(ns) / float64(time.Second) }
