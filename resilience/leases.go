package resilience

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/keypart"
)

// leases takes blocks of units from the store in advance, under limits that are
// [stint.Limit.Leased], and serves requests from these blocks, in memory. The store decides all
// other requests: those for which too few units are left, and those that are not leasable. The
// store counts every leased unit, so its answers stay exact. A block may also serve only some
// claims of a request: see [leasedPart].
//
// A lease starts when the store has allowed two requests within the lease's length. The length is a
// twentieth of the shortest window, or longer if the store is far away. In the background, a
// renewal gets the next block, sized to the demand and to the units that are left. When the next
// block takes over, the units that are left in the previous one are given back.
//
// # Why limits are never exceeded
//
// The store stamps the units of a block with the time now + d by its own clock, where d is the
// length of the lease, and counts them from now until a window after the stamp. This process serves
// them only until d after it sent the request. The store read its clock after the request was sent,
// so a unit is always served before its stamp. It counts from before its use until more than a
// window after its use. So all units that are used within one window are counted at the same time,
// and the store never lets their sum exceed the limit.
//
// A block ends when either the wall clock or the monotonic clock reaches its end. The monotonic
// clock may stop while a machine is suspended, and the wall clock may be set back. A thousandth of
// d is reserved for clocks that run slow. (A virtual machine that is paused with both of its clocks
// may serve its old units when it resumes.)
//
// Limits with a burst are less strict. Their meter counts a block from the moment when the block
// is taken, and refills units before they are used. So more units may be available: those that are
// refilled during d, and returned units that were refilled before their return. The limit still
// admits at most the capacity in any window, and Max per window in the long run.
//
// # Drawbacks
//
// Units count for d longer than they would otherwise: a limit that is always full admits about 5%
// less. The block of a process that dies counts for d plus a window. A process that cannot reach
// the store serves its block for at most d; after that, leased limits deny every request, unless
// the failure mode is [stint.FailError].
//
// A ban or a reset made elsewhere takes effect when the block ends, after at most d, or at once if
// it is announced. A ban or a reset made through this process takes effect at once. A limit with a
// different Max or Burst has a lease of its own.
//
// A decision from memory reports the usage from the store's answer that granted the block, minus
// the units that are left in the block.
//
// It is safe for concurrent use. Serving takes no locks unless a renewal is due or the next block
// takes over. It allocates nothing if the request has one claim with few limits.
type leases struct {
	stack *Stack
	seed  maphash.Seed

	table     leaseTable
	misses    leaseSketch
	roundTrip atomic.Int64 // smoothed response time of the store; 0 if unknown

	mu       sync.Mutex // guards the fields below, and changes to the table
	closed   bool
	renewals sync.WaitGroup
}

const (
	failurePause = 250 * time.Millisecond // pause between renewals after a failure, give or take a fifth
	denialPause  = time.Second            // maximum pause after a denial
	leaseIdle    = time.Second            // minimum time without requests after which a lease without a block ends
)

// applyBans makes a request subject to bans without counting its denials toward one.
var applyBans = stint.BanPolicy{}

func newLeases(s *Stack) *leases {
	return &leases{stack: s, seed: maphash.MakeSeed(), table: newLeaseTable(s.config.Leases),
		misses: newLeaseSketch(s.config.Leases)}
}

func (l *leases) now() leaseTime { return l.at(time.Now()) }

func (l *leases) at(t time.Time) leaseTime {
	return leaseTime{wall: t.UnixNano(), mono: int64(t.Sub(l.stack.start))}
}

func (l *leases) distance() time.Duration { return time.Duration(l.roundTrip.Load()) }

// serve tries to answer a leasable request that has a single claim, using units from the block of
// the claim's lease. It reports whether it did. It fills in d, which must be a zero decision.
func (l *leases) serve(r *stint.Request, d *stint.Decision, asked time.Time) bool {
	_, ls := l.find(r, 0)
	if ls == nil {
		return false
	}
	cost, now, mark := r.Claims[0].Cost, l.at(asked), l.stack.ledger.mark
	b, left, renew := l.take(ls, cost, now)
	if b != nil {
		d.Allowed = true
		d.Charge.SetClaims(r.Claims)
		charge, block := d.Charge.Data(), b.charge.Data()
		charge.ID, charge.At, charge.Now = newLeasedID(mark), block.At, block.Now
		charge.Generation, charge.Others, charge.Leased, charge.Leaser = block.Generation, block.Others, 1, uint16(mark)
		b.show(d.MakeUsages(len(b.usages)), cost, left, now)
	}
	l.served(ls, cost, b != nil, renew, now)
	return b != nil
}

// take takes units from the current block of a lease. If that has too few units, and the following
// block has enough, the following block takes over. The results are those of [lease.take].
func (l *leases) take(ls *lease, cost int64, now leaseTime) (b *leaseBlock, left int64, renew bool) {
	old := ls.block.Load()
	if b, left, renew = ls.take(cost, now); b != nil {
		return b, left, renew
	}
	if f := ls.following.Load(); f != nil && f.live(now) && f.units.Load() >= cost {
		ls.mu.Lock()
		if ls.block.Load() == old {
			l.advance(ls)
		}
		ls.mu.Unlock()
	}
	if ls.block.Load() == old {
		return nil, 0, renew
	}
	return ls.take(cost, now)
}

// served records that a request of the given cost was made under a lease, and whether the lease
// served it. It renews the lease if renew is set or if requests keep finding too few units.
func (l *leases) served(ls *lease, cost int64, served, renew bool, now leaseTime) {
	if !served && ls.miss(cost, now, ls.length(l.distance())) {
		renew = true
	}
	if renew {
		l.renew(ls, now)
	}
}

// find returns the hash of a claim's lease, and the lease itself, or nil if there is none. The
// request must be leasable.
func (l *leases) find(r *stint.Request, claim int) (uint64, *lease) {
	c := &r.Claims[claim]
	bans := r.Bans != nil && !c.Shared
	hash := l.hash(c, bans)
	return hash, l.table.find(hash, c, bans)
}

func (l *leases) hash(c *stint.Claim, bans bool) uint64 {
	key := *c
	key.Cost, key.Shared = 0, bans
	return hashClaim(l.seed, 0, maphash.String(l.seed, c.Subject), &key)
}

// learn updates leases after the store's decision on a leasable request, or on the part of it that
// leases did not serve. If a claim has no lease and the store has allowed it twice within a lease's
// length, learn starts a lease for it.
func (l *leases) learn(r *stint.Request, d *stint.Decision, asked time.Time) {
	now := l.now()
	l.measure(now.mono - l.at(asked).mono)
	for i := range r.Claims {
		if !leasableClaim(&r.Claims[i]) || d.Charge.Data().IsLeased(i) {
			continue
		}
		hash, ls := l.find(r, i)
		switch {
		case d.Banned && int(d.Denier) == i+1 && ls != nil:
			l.end(ls)
		// Count the demand that takePart did not count, unless another claim was denied.
		case ls != nil && len(r.Claims) > 1 && (d.Allowed || int(d.Denier) == i+1):
			l.served(ls, r.Claims[i].Cost, false, false, now)
		case d.Allowed && ls == nil:
			if since, again := l.misses.again(hash, now.mono); again {
				l.begin(r, i, hash, since, now)
			}
		}
	}
}

// begin starts the lease of a claim, unless the previous request came longer ago than the lease's
// length.
func (l *leases) begin(r *stint.Request, claim int, hash uint64, since int64, now leaseTime) {
	c := &r.Claims[claim]
	ls := newLease(hash, c, r.Bans != nil && !c.Shared)
	length := ls.length(l.distance())
	if since > int64(length) {
		return
	}
	cost := c.Cost
	ls.missed.Store(2 * cost) // assume that the previous request had the same cost
	ls.missAt.Store(now.mono)
	ls.rate, ls.countedAt = float64(cost)/seconds(max(since, int64(length)/16)), now.mono
	ls.mu.Lock() // so that tend waits until the timer is set
	ls.timer = time.AfterFunc(leaseIdle, func() { l.tend(ls) })
	ls.mu.Unlock()
	l.mu.Lock()
	added := !l.closed && l.table.find(hash, &ls.claim, ls.bans) == nil && l.table.add(ls)
	l.mu.Unlock()
	if !added {
		l.end(ls)
		return
	}
	l.renew(ls, now)
}

// measure updates the estimate of the round-trip time to the store. The estimate rises faster than
// it falls, because a renewal that is late costs more than one that is early.
func (l *leases) measure(took int64) {
	old := l.roundTrip.Load()
	next := max(took, 1)
	switch {
	case old == 0:
	case next > old:
		next = old + (next-old)/4
	default:
		next = old - (old-next)/16
	}
	l.roundTrip.CompareAndSwap(old, next) // on failure, another call has just stored a value
}

// renew gets the next block of a lease in the background, unless a renewal is under way or it is
// too early for one.
func (l *leases) renew(ls *lease, now leaseTime) {
	after := ls.renewAfter.Load()
	if now.mono < after || !ls.renewAfter.CompareAndSwap(after, renewing) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.renewals.Go(func() { ls.renewAfter.Store(l.renewNow(ls, now)) })
	}
}

// renewNow asks the store for the next block, and returns the earliest time of the next renewal.
// due is the time at which the renewal became due; in a busy process, renewNow may start later. The
// delay counts as part of the measured round trip, but does not raise that above a quarter of the
// block's length.
func (l *leases) renewNow(ls *lease, due leaseTime) (after int64) {
	asked := time.Now() // before anything else, because the block's length counts from here
	sent := l.at(asked)
	ls.mu.Lock()
	p := ls.plan(sent, l.distance())
	ls.mu.Unlock()
	if p.units == 0 {
		return sent.mono + int64(max(p.length/32, time.Millisecond))
	}
	r := driver.WithTerms(stint.Request{Claims: []stint.Claim{ls.claim}}, driver.Terms{Lease: p.length})
	r.Claims[0].Cost = p.units
	if ls.bans {
		r.Bans = &applyBans
	}
	d, err := l.stack.take(l.stack.life, &r, nil, asked)
	now := l.now()
	if err == nil || errors.Is(err, context.DeadlineExceeded) && errkind.Of(err) != stint.KindRefused {
		l.measure(max(now.mono-sent.mono, min(now.mono-due.mono, int64(p.length/4))))
	}
	switch {
	case err != nil:
		return now.mono + int64(jitter(failurePause))
	case d.Banned:
		l.end(ls)
	case !d.Allowed:
		return now.mono + int64(min(denialPause, d.RetryAfter))
	default:
		l.add(ls, newBlock(&d, &p, sent, now))
		// The store granted fewer units than requested. Pause, so that other processes get a
		// chance to take the units that are given back next.
		if d.Charge.Claims()[0].Cost < p.units {
			return now.mono + int64(p.length/4)
		}
	}
	return now.mono
}

func newBlock(d *stint.Decision, p *leasePlan, sent, now leaseTime) *leaseBlock {
	life := int64(p.length - p.length/1024) // a clock may run slow
	b := &leaseBlock{charge: d.Charge, granted: d.Charge.Claims()[0].Cost,
		end:    leaseTime{wall: sent.wall + life, mono: sent.mono + life},
		usages: slices.Clone(d.Usages()), at: now.mono, renewBelow: p.low}
	b.renewAt = b.end.mono - p.lead
	b.units.Store(b.granted)
	return b
}

// add gives a lease its next block, or gives the block back if the lease has ended.
func (l *leases) add(ls *lease, b *leaseBlock) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.ended {
		l.giveBack(b, 0)
		return
	}
	if ls.following.Load() != nil {
		l.advance(ls)
	}
	now := l.now()
	if old := ls.block.Load(); old != nil && old.live(now) {
		ls.following.Store(b)
		ls.timer.Reset(time.Duration(min(b.renewAt, old.end.mono) - now.mono))
		return
	}
	l.replace(ls, b)
	ls.timer.Reset(time.Duration(b.renewAt - now.mono))
}

// advance replaces the current block with the following one, if any. ls.mu must be held.
func (l *leases) advance(ls *lease) {
	l.replace(ls, ls.following.Load())
	ls.following.Store(nil)
}

// replace replaces the current block with b, which may be nil, and gives back the unused units of
// the old block. ls.mu must be held.
func (l *leases) replace(ls *lease, b *leaseBlock) {
	old := ls.block.Swap(b)
	if old == nil {
		return
	}
	used := old.granted - max(0, old.units.Swap(blockClosed))
	if ls.spent += used; used < old.granted {
		l.giveBack(old, used)
	}
}

// giveBack gives the unused units of a block back to the store. After a reset, the store ignores
// them, because the block's charge is from an earlier generation.
func (l *leases) giveBack(b *leaseBlock, used int64) {
	settle := stint.Amendment{Kind: stint.AmendSettle, Cost: used}
	l.stack.sender.add(&job{AmendCall: driver.AmendCall{Charge: b.charge, Amendment: settle}}, 0)
}

// tend runs when the timer of a lease fires. Depending on the time, it does one of these:
//
//   - It renews the block if that is due and no request has done so.
//   - It replaces a block that has ended, and gives back the unused units of that block.
//   - It ends a lease that has had no block and no request for some time.
//
// The timer may have been set again while tend waited for the lock, so tend may find nothing to do.
func (l *leases) tend(ls *lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now, b, idle := l.now(), ls.block.Load(), int64(max(ls.length(l.distance()), leaseIdle))
	next := ls.missAt.Load() + idle
	switch {
	case ls.ended:
		return
	case b != nil && now.mono >= b.end.mono:
		l.advance(ls)
		next = now.mono + idle
		if b = ls.block.Load(); b != nil {
			next = b.renewAt
		}
	case b != nil && now.mono < ls.latest().renewAt:
		next = min(ls.latest().renewAt, b.end.mono)
	case b != nil:
		l.renew(ls, now)
		next = b.end.mono
	case ls.renewAfter.Load() == renewing:
		next = now.mono + idle
	case next <= now.mono:
		l.endLocked(ls)
		return
	}
	ls.timer.Reset(time.Duration(next - now.mono))
}

// settleClaim settles the leased claim i of a charge in the block that served it. done reports
// whether it did. If it did not, known reports whether the claim had already been settled.
func (l *leases) settleClaim(c *stint.Charge, i int, a *stint.Amendment) (done, known bool) {
	claim := &c.Claims()[i]
	for _, bans := range []bool{false, true} {
		ls := l.table.find(l.hash(claim, bans), claim, bans)
		if ls != nil && l.settle(ls, c, i, a) {
			return true, false
		}
	}
	return false, l.stack.ledger.settled.Has(c.Data().ID, claim)
}

// settle settles claim i of a charge in the block of a lease, and reports whether it did. If the
// cost rises by more than the block has left, or if the amendment sets costs by limit name, settle
// ends the block, so that the store can settle the claim.
func (l *leases) settle(ls *lease, c *stint.Charge, i int, a *stint.Amendment) bool {
	claim, settled := &c.Claims()[i], &l.stack.ledger.settled
	ls.mu.Lock()
	defer ls.mu.Unlock()
	b := ls.block.Load()
	if b == nil || b.charge.Data().At != c.Data().AtOf(i) || settled.Has(c.Data().ID, claim) {
		return false
	}
	if a.Costs != nil {
		l.advance(ls)
		return false
	}
	if back := claim.Cost - a.Cost; back >= 0 {
		if back > b.used() {
			return false // the charge is not from this block
		}
		b.units.Add(back)
	} else if _, ok := b.take(-back); !ok {
		l.advance(ls)
		return false
	}
	settled.Add(c.Data().ID, claim)
	return true
}

// commanded ends the leases that a reset or a ban affects. A [stint.CommandGiveBack] affects none:
// it gives back used units, and leaves the unused units of leases alone if the store can tell them
// from used ones.
func (l *leases) commanded(c *stint.Command) {
	if c.Kind == stint.CommandUnban || c.Kind == stint.CommandGiveBack {
		return
	}
	for ls := range l.table.all() {
		if ls.claim.Subject == c.Subject && (c.Kind == stint.CommandBan || ls.claim.Scope == c.Scope) {
			l.end(ls)
		}
	}
}

// drop ends the leases of a subject, or all of them if the subject is empty. It is called when a
// command is announced, and by close.
func (l *leases) drop(subject string) {
	name := keypart.Name(subject)
	for ls := range l.table.all() {
		if subject == "" || ls.name == name {
			l.end(ls)
		}
	}
}

// end ends a lease. A renewal that is under way gives its block back.
func (l *leases) end(ls *lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.endLocked(ls)
}

func (l *leases) endLocked(ls *lease) {
	l.mu.Lock()
	l.table.remove(ls)
	l.mu.Unlock()
	ls.ended = true
	ls.timer.Stop()
	l.advance(ls)
	l.replace(ls, nil)
}

// close gives back unused units. Later requests go to the store.
func (l *leases) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.drop("")
	l.renewals.Wait()
}
