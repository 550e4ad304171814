package resilience

import (
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/keypart"
)

// lease holds units that the store has already charged to one subject and scope, under one list of
// limits. Requests take units from its current block, without a lock. The following block takes
// over only when the current one has too few units or has ended, because the units left in the
// current block are then given back.
type lease struct {
	hash  uint64
	claim stint.Claim // Cost is not used
	bans  bool        // whether its requests are subject to bans
	name  string      // the name of the subject in announcements

	next atomic.Pointer[lease] // the next lease in the same slot of the table

	window   time.Duration // the shortest window of its limits
	capacity int64         // the smallest capacity of its limits

	block      atomic.Pointer[leaseBlock] // nil if there is none
	following  atomic.Pointer[leaseBlock] // the block after it, or nil; nil if block is nil
	renewAfter atomic.Int64               // earliest time of the next renewal, or the constant renewing

	missed  atomic.Int64 // total cost of the requests that found too few units
	missAt  atomic.Int64 // when the latest such request came
	largest atomic.Int64 // the largest cost of such a request; decays over time

	mu    sync.Mutex // guards the fields below, and replacements of the blocks
	ended bool       // whether it was removed from the table
	timer *time.Timer
	spent int64 // units used from earlier blocks

	rate      float64 // demand at countedAt, in units per second
	counted   int64   // number of units requested up to countedAt
	countedAt int64
}

// renewing is the value of renewAfter during a renewal.
const renewing = math.MaxInt64

// leaseBlock holds units that the store has charged, to be used before the block's end. Its fields
// do not change, except for units.
type leaseBlock struct {
	charge  stint.Charge
	granted int64
	end     leaseTime
	usages  []stint.Usage // usages in the store's answer
	at      int64         // when the store's answer arrived

	renewBelow int64 // a renewal is due when fewer units are left
	renewAt    int64 // a renewal is due from this time on

	_     [64]byte // units has a cache line of its own, because all cores write to it
	units atomic.Int64
	_     [64]byte
}

// leaseTime is a reading of the wall clock and the monotonic clock, in nanoseconds. All other times
// in leases and blocks are readings of the monotonic clock.
type leaseTime struct{ wall, mono int64 }

// blockClosed replaces the units of a block that has ended, so that late requests find none.
const blockClosed = math.MinInt64 / 2

func newLease(hash uint64, c *stint.Claim, bans bool) *lease {
	ls := &lease{hash: hash, bans: bans, window: stint.MaxWindow, capacity: stint.MaxUnits,
		claim: stint.Claim{Subject: strings.Clone(c.Subject), Scope: strings.Clone(c.Scope),
			Limits: slices.Clone(c.Limits)}}
	ls.name = keypart.Name(ls.claim.Subject)
	for i := range c.Limits {
		ls.window = min(ls.window, c.Limits[i].Window)
		ls.capacity = min(ls.capacity, c.Limits[i].Capacity())
	}
	return ls
}

// newLeasedID returns a random ID. A counter would not make collisions less likely, and cores would
// contend for it.
func newLeasedID(mark uint64) uint64 { return mark<<markShift | rand.Uint64()>>markBits }

// take takes units from the current block of the lease. It returns the block and how many units are
// left, or nil if there is no live block with enough units. It also reports whether a renewal is
// due.
func (ls *lease) take(cost int64, now leaseTime) (b *leaseBlock, left int64, renew bool) {
	b = ls.block.Load()
	if b == nil || !b.live(now) {
		return nil, 0, false
	}
	left, ok := b.take(cost)
	if !ok {
		return nil, 0, cost <= ls.capacity
	}
	return b, left, ls.due(b, left, now)
}

// due reports whether a renewal is due, given the current block and how many units it has left.
func (ls *lease) due(b *leaseBlock, left int64, now leaseTime) bool {
	if left >= b.renewBelow && now.mono < b.renewAt {
		return false
	}
	f := ls.following.Load()
	return f == nil || left+f.units.Load() < f.renewBelow || now.mono >= f.renewAt
}

// latest returns the block that the store granted last, or nil.
func (ls *lease) latest() *leaseBlock {
	if f := ls.following.Load(); f != nil {
		return f
	}
	return ls.block.Load()
}

// show fills in the usages from the store's answer that granted the block. It subtracts the units
// left in the block, and reduces ResetAfter by the age of the answer. Used is at least cost, the
// number of units that the request itself has used.
func (b *leaseBlock) show(usages []stint.Usage, cost, left int64, now leaseTime) {
	for i, u := range b.usages {
		usages[i].Used = max(cost, u.Used-left)
		usages[i].ResetAfter = max(0, u.ResetAfter-time.Duration(now.mono-b.at))
	}
}

func (b *leaseBlock) live(now leaseTime) bool { return now.mono < b.end.mono && now.wall < b.end.wall }

// take takes n units if there are that many, and returns how many are left.
func (b *leaseBlock) take(n int64) (left int64, ok bool) {
	if b.units.Load() < n {
		return 0, false
	}
	if left = b.units.Add(-n); left >= 0 {
		return left, true
	}
	b.units.Add(n)
	return 0, false
}

// halfFree reports whether at most half of every limit was used when the store granted the block.
func (b *leaseBlock) halfFree(limits []stint.Limit) bool {
	for i := range b.usages {
		if b.usages[i].Used > limits[i].Capacity()/2 {
			return false
		}
	}
	return true
}

// used returns the number of units taken. It may be too large for a moment, while a request that
// found too few units puts them back.
func (b *leaseBlock) used() int64 { return b.granted - max(0, b.units.Load()) }

// miss records that a request found too few units. It reports whether the previous such request
// came at most the given length of time earlier.
func (ls *lease) miss(cost int64, now leaseTime, length time.Duration) (again bool) {
	if cost > ls.capacity {
		return false // the request will never fit
	}
	ls.missed.Add(cost)
	if cost > ls.largest.Load() {
		ls.largest.Store(cost)
	}
	return now.mono-ls.missAt.Swap(now.mono) <= int64(length)
}

// Bounds on the length of a block.
const (
	minLease = 20 * time.Millisecond
	maxLease = time.Minute
)

// length returns the length of a block. The length is short, because the block's units count for
// that much longer, but long enough for a few round trips. It is at most half of the shortest
// window, and at most maxLease.
func (ls *lease) length(roundTrip time.Duration) time.Duration {
	d := max(ls.window/20, 4*roundTrip, minLease)
	return min(d, maxLease, ls.window/2).Truncate(time.Microsecond)
}

// leasePlan describes the block to request from the store. units is 0 if a block is not worthwhile.
type leasePlan struct {
	units  int64
	length time.Duration
	low    int64 // renew when fewer units are left
	lead   int64 // renew this many nanoseconds before the end
}

// plan measures the demand, and returns the plan of the block to request. Together with the units
// that the lease still has, the block covers the demand for about half of its length, so that few
// units are tied up. If few units are enough for its whole length and the limits are half free, it
// covers its whole length. ls.mu must be held.
func (ls *lease) plan(now leaseTime, roundTrip time.Duration) (p leasePlan) {
	p.length = ls.length(roundTrip)
	total, halfFree := ls.spent+ls.missed.Load(), false
	if b := ls.block.Load(); b != nil {
		total += b.used()
		halfFree = ls.latest().halfFree(ls.claim.Limits)
	}
	cost := max(1, ls.largest.Load())
	ls.largest.Store(cost - cost/64)
	if p.length < 2*roundTrip || total-ls.counted < 2*cost {
		// The block would be nearly over when it arrives, or the demand is too low to be worth a
		// call.
		return p
	}
	ls.count(total, cost, now, p.length)
	// The remaining units must last for two round trips.
	lead := min(2*roundTrip+min(5*time.Millisecond, p.length/8), p.length/2)
	p.lead = int64(lead)
	p.low = min(ls.capacity, max(cost, ls.expect(0, lead, cost)))
	p.units = min(ls.capacity, max(p.low+cost, ls.expect(0.25, roundTrip+p.length/2, cost)))
	if all := ls.expect(0.25, p.length, cost); halfFree && all <= ls.capacity/16 {
		p.units = max(p.units, all)
	}
	p.units = max(cost, p.units-ls.usable(now))
	return p
}

// usable returns how many units of the block that was granted last will be used before the block
// ends, at the current rate.
func (ls *lease) usable(now leaseTime) int64 {
	b := ls.latest()
	if b == nil || !b.live(now) {
		return 0
	}
	return max(0, min(int64(ls.rate*seconds(b.end.mono-now.mono)), b.units.Load()))
}

// count updates the rate, given the total number of units requested so far. It adopts an increase
// at once if the increase is too large to be chance. It follows other changes slowly, because a few
// requests at the same moment prove little.
func (ls *lease) count(total, cost int64, now leaseTime, length time.Duration) {
	passed, fresh := now.mono-ls.countedAt, float64(total-ls.counted)
	latest := fresh / seconds(max(passed, int64(length)/8))
	weight := 1 - math.Exp(-float64(passed)/float64(max(length/2, 200*time.Millisecond)))
	expected, one := ls.rate*seconds(passed), float64(cost)
	if latest > ls.rate && fresh > expected+4*math.Sqrt((expected+one)*one) {
		weight = 1
	}
	ls.rate += weight * (latest - ls.rate)
	ls.counted, ls.countedAt = total, now.mono
}

// expect estimates how many units will be requested within the given time, and adds a reserve: the
// given part of the estimate or two standard deviations, whichever is larger. If requests are
// independent and cost the same, the standard deviation is the square root of units times cost. The
// result is at most the capacity.
func (ls *lease) expect(part float64, in time.Duration, cost int64) int64 {
	units := ls.rate * seconds(int64(in))
	more := max(part*units, 2*math.Sqrt(units*float64(cost)))
	return int64(math.Ceil(min(units+more, float64(ls.capacity))))
}

func seconds(ns int64) float64 { return float64(ns) / float64(time.Second) }

// leaseTable is a hash table of leases. Reading takes no lock; changes are made under leases.mu.
// Each slot is a linked list, to which leases are added only at the head. A reader at a removed
// lease still reaches the leases behind it.
type leaseTable struct {
	heads []atomic.Pointer[lease] // their number is a power of two
	shift uint                    // the slot of a lease is its hash >> shift
	count int
	most  int
}

func newLeaseTable(most int) leaseTable {
	width := max(bits.Len(uint(most-1)), 1)
	return leaseTable{heads: make([]atomic.Pointer[lease], 1<<width), shift: uint(64 - width), most: most}
}

func (t *leaseTable) find(hash uint64, c *stint.Claim, bans bool) *lease {
	for ls := t.heads[hash>>t.shift].Load(); ls != nil; ls = ls.next.Load() {
		if ls.hash == hash && ls.bans == bans && ls.claim.Subject == c.Subject && ls.claim.Scope == c.Scope &&
			slices.Equal(ls.claim.Limits, c.Limits) {
			return ls
		}
	}
	return nil
}

func (t *leaseTable) all() iter.Seq[*lease] {
	return func(yield func(*lease) bool) {
		for i := range t.heads {
			for ls := t.heads[i].Load(); ls != nil; ls = ls.next.Load() {
				if !yield(ls) {
					return
				}
			}
		}
	}
}

// add adds a lease unless the table is full. It reports whether it did.
func (t *leaseTable) add(ls *lease) bool {
	if t.count >= t.most {
		return false
	}
	t.count++
	head := &t.heads[ls.hash>>t.shift]
	ls.next.Store(head.Load())
	head.Store(ls)
	return true
}

func (t *leaseTable) remove(ls *lease) {
	for at := &t.heads[ls.hash>>t.shift]; at.Load() != nil; at = &at.Load().next {
		if at.Load() == ls {
			at.Store(ls.next.Load())
			t.count--
			return
		}
	}
}

// leaseSketch remembers which claims without a lease the store has allowed, and when, so that a
// claim that comes only once does not start a lease. Each slot holds half of a hash and a time. Of
// the claims that share a slot, only the last is remembered, so some leases start a little later.
type leaseSketch []atomic.Uint64

// sketchBits is the number of low bits that the sketch drops from a time in nanoseconds, which
// leaves ticks of 65 µs. A time of more than a day and a half between two claims wraps around: at
// worst, a lease is started unnecessarily.
const sketchBits = 16

func newLeaseSketch(leases int) leaseSketch {
	return make(leaseSketch, 1<<bits.Len(uint(max(leases, 1024))))
}

// again records that a claim came, and returns the time since it last came, if that is remembered.
func (s leaseSketch) again(hash uint64, now int64) (since int64, ok bool) {
	tick := uint32(now>>sketchBits) | 1 // never zero: a zero tick marks an empty slot
	old := s[hash&uint64(len(s)-1)].Swap(hash>>32<<32 | uint64(tick))
	if uint32(old) == 0 || old>>32 != hash>>32 {
		return 0, false
	}
	return max(0, int64(int32(tick-uint32(old)))) << sketchBits, true
}
