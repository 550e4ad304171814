package resilience

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/storebounds"
)

// lease is what one process holds for one kind of request: blocks of units that the store has
// charged already. Requests are served from a snapshot of the blocks, without a lock.
type lease struct {
	// Which requests it serves: those of one subject and scope, under the same limits, that apply
	// bans or do not.
	hash  uint64
	claim stint.Claim // its Cost is not used
	bans  bool

	next atomic.Pointer[lease] // in the table

	window   time.Duration // the shortest of the limits'
	capacity int64         // the smallest of the limits'

	snapshot atomic.Pointer[leaseSnapshot] // nil if there is nothing to serve from
	misses   leaseMisses
	renewal  leaseRenewal

	mu      sync.Mutex       // of all that follows
	blocks  []*leaseBlock    // by their ends
	settled map[uint64]int64 // charges that were settled, with their instants
	spent   int64            // units of blocks that have ended
	usage   leaseUsage
	demand  leaseDemand
	ended   bool // no longer in the table
	returns bool // if ended: a block that a renewal still brings is given back
}

// leaseMisses counts requests that went to the store.
type leaseMisses struct {
	last    atomic.Int64 // when the last one came, monotonic
	units   atomic.Int64 // of all of them
	largest atomic.Int64 // the largest cost, fading
}

// leaseRenewal is whether, and when, to ask the store for another block.
type leaseRenewal struct {
	underWay  atomic.Bool
	notBefore atomic.Int64 // monotonic
}

// leaseUsage is what the store answered with the latest block, and when.
type leaseUsage struct {
	limits []stint.Usage
	at     int64 // monotonic
}

// leaseSnapshot is what a lease serves from. It is replaced, never changed.
type leaseSnapshot struct {
	blocks []servedBlock // by their ends
	usage  leaseUsage
}

// servedBlock is a block, and when to renew while serving from it.
type servedBlock struct {
	*leaseBlock
	renewBelow int64 // with fewer units left
	renewAt    int64 // from this instant on, monotonic
}

func newLease(hash uint64, c *stint.Claim, bans bool) *lease {
	claim := stint.Claim{Subject: strings.Clone(c.Subject), Scope: strings.Clone(c.Scope),
		Limits: slices.Clone(c.Limits)}
	ls := &lease{
		hash: hash, claim: claim, bans: bans,
		window:   stint.MaxWindow,
		capacity: stint.MaxUnits,
	}
	for i := range c.Limits {
		ls.window = min(ls.window, c.Limits[i].Window)
		ls.capacity = min(ls.capacity, c.Limits[i].Capacity())
	}
	return ls
}

// begin notes what led to the lease: a miss of that cost, the second within a time. The first is
// taken to have cost as much.
func (ls *lease) begin(cost, since int64, now leaseTime) {
	ls.demand = leaseDemand{rate: float64(cost) / seconds(since), began: now.mono, countedAt: now.mono,
		changedAt: now.mono}
	ls.misses.units.Store(cost)
	ls.misses.last.Store(now.mono)
}

// serve takes a request's cost from the block that ends first, for a process with a mark. It
// reports whether it is time to renew.
func (ls *lease) serve(r *stint.Request, now leaseTime, mark uint64, d *stint.Decision) (served, renew bool) {
	s, c := ls.snapshot.Load(), &r.Claims[0]
	if s == nil {
		return false, false
	}
	for i := range s.blocks {
		b := &s.blocks[i]
		left, ok := b.take(c.Cost, now)
		if !ok {
			continue
		}
		unspent := left
		for j := range s.blocks {
			if j != i {
				unspent += s.blocks[j].left()
			}
		}
		d.Allowed = true
		// A random id is as unique as a counter's, and cores do not contend for it.
		d.Charge.SetClaims(r.Claims)
		charge, block := d.Charge.Data(), b.charge.Data()
		charge.ID, charge.At, charge.Now = mark<<markShift|rand.Uint64()>>markBits, block.At, block.Now
		charge.Generation, charge.Others, charge.Leased = block.Generation, block.Others, true
		usages := d.MakeUsages(len(s.usage.limits))
		for k, u := range s.usage.limits {
			usages[k].Used = max(c.Cost, u.Used-unspent)
			usages[k].ResetAfter = max(0, u.ResetAfter-time.Duration(now.mono-s.usage.at))
		}
		return true, b.due(left, now)
	}
	return false, false
}

// due reports whether it is time to renew, with so many units left.
func (b *servedBlock) due(left int64, now leaseTime) bool {
	return left < b.renewBelow || now.mono >= b.renewAt
}

// missed notes a request that went to the store, and reports whether to renew: not for one alone in
// the length of a lease.
func (ls *lease) missed(cost int64, now leaseTime, length time.Duration) bool {
	if cost > ls.capacity {
		return false // it will never fit
	}
	m := &ls.misses
	m.units.Add(cost)
	if cost > m.largest.Load() {
		m.largest.Store(cost)
	}
	return now.mono-m.last.Swap(now.mono) <= int64(length) || ls.snapshot.Load() != nil
}

// may reports whether the lease may be renewed now.
func (r *leaseRenewal) may(now leaseTime) bool {
	return now.mono >= r.notBefore.Load() && !r.underWay.Load()
}

// wait puts the next renewal off.
func (r *leaseRenewal) wait(now leaseTime, pause time.Duration) {
	r.notBefore.Store(now.mono + int64(pause))
}

// add adds a new block. The lock is held, as for all that follows but settle and end.
func (ls *lease) add(b *leaseBlock) {
	ls.blocks = append(ls.blocks, b)
	slices.SortStableFunc(ls.blocks, func(a, b *leaseBlock) int { return int(max(-1, min(1, a.end.mono-b.end.mono))) })
	ls.coverDebts()
}

// coverDebts pays the debts of blocks with the units of others.
func (ls *lease) coverDebts() {
	for _, b := range ls.blocks {
		for _, other := range ls.blocks {
			if b.debt > 0 && other != b {
				b.debt -= other.takeUpTo(b.debt)
			}
		}
	}
}

// publish replaces the snapshot that requests are served from.
func (ls *lease) publish(now leaseTime) {
	s := &leaseSnapshot{usage: ls.usage}
	later := int64(0) // units in blocks that end later
	for _, b := range slices.Backward(ls.blocks) {
		if !b.live(now) {
			continue
		}
		s.blocks = append(s.blocks, servedBlock{b, ls.demand.low - later, ls.demand.renewAt(b, later)})
		later += b.left()
	}
	slices.Reverse(s.blocks)
	if len(s.blocks) == 0 {
		s = nil
	}
	ls.snapshot.Store(s)
}

// total is how many units requests have ever wanted.
func (ls *lease) total() int64 {
	total := ls.spent + ls.misses.units.Load()
	for _, b := range ls.blocks {
		total += b.granted - b.left()
	}
	return total
}

// usable is how many of the units held will be used before their block ends, at the present rate,
// and how many are owed.
func (ls *lease) usable(now leaseTime) (held, debt int64) {
	for _, b := range ls.blocks {
		debt += b.debt
		if b.live(now) {
			can := int64(ls.demand.rate*seconds(b.end.mono-now.mono)) - held
			held += max(0, min(b.left(), can))
		}
	}
	return held, debt
}

// makeRoom reports whether there is room for another block. If need be it ends one that is used up:
// what that block served can no longer be settled.
func (ls *lease) makeRoom() bool {
	if len(ls.blocks) < maxBlocks {
		return true
	}
	i := slices.IndexFunc(ls.blocks, func(b *leaseBlock) bool { return b.units.Load() == 0 && b.debt == 0 })
	if i < 0 {
		return false
	}
	ls.endBlock(i)
	return true
}

// endBlock removes a block. What was taken from it counts as used; nothing can be taken from it any
// more. It reports whether the store has charged another cost.
func (ls *lease) endBlock(i int) (back giveBack, differs bool) {
	b := ls.blocks[i]
	ls.blocks = slices.Delete(ls.blocks, i, i+1)
	used := b.close()
	ls.spent += used
	if !slices.ContainsFunc(ls.blocks, func(o *leaseBlock) bool { return o.charge.Data().At == b.charge.Data().At }) {
		for id, at := range ls.settled {
			if at == b.charge.Data().At {
				delete(ls.settled, id)
			}
		}
	}
	return giveBack{b.charge, min(used+b.debt, stint.MaxUnits), b.debt}, used+b.debt != b.granted
}

// end ends the lease for good, and returns what there is to give back if that is wanted.
func (ls *lease) end(back bool) (backs []giveBack) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.ended {
		ls.returns = ls.returns && back
		return nil
	}
	ls.ended, ls.returns = true, back
	ls.snapshot.Store(nil)
	for len(ls.blocks) > 0 {
		if unused, differs := ls.endBlock(0); differs && back {
			backs = append(backs, unused)
		}
	}
	return backs
}

// settle replaces the cost of a charge by the true one, in the block that it came from. It reports
// whether that block is there.
func (ls *lease) settle(c *stint.Charge, a stint.Amendment) (found bool, done stint.Amended) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	i := slices.IndexFunc(ls.blocks, func(b *leaseBlock) bool { return b.charge.Data().At == c.Data().At })
	if i < 0 {
		return false, done
	}
	if _, again := ls.settled[c.Data().ID]; again || len(ls.settled) >= storebounds.MaxSettled*len(ls.blocks) {
		return true, done
	}
	more := a.Cost - c.Claims()[0].Cost
	if more > 0 {
		more = min(more, ls.mostRaise(c.Claims()[0].Limits, a.MaxDebt))
	}
	if !ls.blocks[i].settle(more) {
		return true, done
	}
	if more > 0 {
		ls.coverDebts()
	}
	if ls.settled == nil {
		ls.settled = map[uint64]int64{}
	}
	ls.settled[c.Data().ID] = c.Data().At
	return true, stint.Amended{Changed: true, Charged: c.Claims()[0].Cost + more}
}

// mostRaise is by how many units a charge may be raised: of a burst to a debt, as far as its usage
// is known. The lock is held.
func (ls *lease) mostRaise(limits []stint.Limit, maxDebt int64) int64 {
	most := stint.MaxUnits
	for i := range limits {
		l := &limits[i]
		if !contract.HasMeter(l) {
			continue
		}
		room := l.Capacity()
		if i < len(ls.usage.limits) {
			room = max(room-ls.usage.limits[i].Used, 0)
		}
		most = min(most, room+cmp.Or(maxDebt, l.Capacity()))
	}
	return most
}
