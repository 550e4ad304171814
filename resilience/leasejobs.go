package resilience

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
)

// How many calls to the store of each kind are under way at once at most, over all leases.
const (
	maxRenewals = 64
	maxReturns  = 64
)

const (
	renewPause = 250 * time.Millisecond // after a failure, give or take a fifth
	denyPause  = time.Second            // after a denial, at most
	returnTime = time.Second            // for giving back: what is not expires by itself
	idleTime   = time.Second            // for a lease that nobody wants, at least
)

var (
	// A renewal obeys bans, but its denials are nobody's fault and lead to none.
	obeyBans = stint.BanPolicy{}
	// Units that somebody else than the store grants cannot be leased.
	failRenewal = stint.FailurePolicy{Mode: stint.FailError}
)

// job runs f in the background, unless there are too many of its kind or Leases are closed.
func (l *Leases) job(kind *atomic.Int32, most int32, f func()) bool {
	if kind.Add(1) > most {
		kind.Add(-1)
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		kind.Add(-1)
		return false
	}
	l.jobs.Go(func() {
		defer kind.Add(-1)
		f()
	})
	return true
}

// renew renews a lease in the background, if nobody else does.
func (l *Leases) renew(ls *lease, now leaseTime) {
	if !ls.renewing.CompareAndSwap(false, true) {
		return
	}
	if !l.job(&l.renewing, maxRenewals, func() { l.renewNow(ls, now) }) {
		ls.notBefore.Store(now.mono + int64(time.Millisecond))
		ls.renewing.Store(false)
	}
}

// renewNow asks for the next block. If the process is busy, it was called for some time ago:
// that is measured along, within reason.
func (l *Leases) renewNow(ls *lease, called leaseTime) {
	defer ls.renewing.Store(false)
	sent := l.now() // before anything else: the end counts from here
	roundTrip := l.roundTrip.Load()
	ls.mu.Lock()
	var ask int64
	var length time.Duration
	pause := minLease
	if !ls.gone && ls.makeRoom() {
		ask, length, pause = ls.plan(sent, roundTrip)
		ls.restock(sent) // by the new marks
	}
	ls.mu.Unlock()
	if ask == 0 {
		ls.notBefore.Store(sent.mono + int64(pause))
		return
	}

	r := stint.Request{Claim: ls.claim, Lease: length, Failure: &failRenewal}
	r.Cost = ask
	if ls.bans {
		r.Bans = &obeyBans
	}
	ctx, cancel := context.WithTimeout(l.ctx, length)
	d, err := l.inner.Take(ctx, r)
	cancel()
	now := l.now()
	if err == nil && (d.Degraded || d.Allowed && d.Charge.Origin() != stint.FromStore) {
		err = errors.New("the units were not granted by the store")
	}
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		l.measure(max(now.mono-sent.mono, min(now.mono-called.mono, int64(length/4)))) // too far away is worth knowing too
	}
	switch {
	case err != nil:
		l.warn(err, now)
		ls.notBefore.Store(now.mono + int64(jitter(renewPause)))
	case d.Banned:
		l.drop(ls, true)
	case !d.Allowed:
		pause = denyPause
		if d.RetryAfter != stint.Never {
			pause = min(pause, d.RetryAfter)
		}
		ls.notBefore.Store(now.mono + int64(pause))
	default:
		if granted := d.Charge.Claim.Cost; granted < ask {
			// There is no more. What comes back in the meantime is there for
			// requests of this and of other processes.
			ls.notBefore.Store(now.mono + int64(length/4))
		}
		l.arrived(ls, &d, sent, now, length)
	}
}

// arrived takes in the block that a renewal brought.
func (l *Leases) arrived(ls *lease, d *stint.Decision, sent, now leaseTime, length time.Duration) {
	life := int64(length - length/1024) // a clock may run slow
	b := &leaseBlock{
		end:     leaseTime{wall: sent.wall + life, mono: sent.mono + life},
		granted: d.Charge.Claim.Cost,
		charge:  d.Charge,
		rest:    &leasedRest,
	}
	if rest := d.Charge.Rest; rest != nil && len(rest.Generations) > 0 {
		b.rest = &stint.Rest{Origin: stint.FromLease, Generations: rest.Generations}
	}
	b.units.Store(b.granted)
	ls.mu.Lock()
	gone, back := ls.gone, ls.back
	if !gone {
		ls.usages, ls.usageAt = slices.Clone(d.Usages()), now.mono
		ls.add(b)
		ls.restock(now)
	}
	ls.mu.Unlock()
	if gone && back {
		_ = l.giveBack(giveBack{charge: d.Charge})
	}
}

// makeRoom reports whether there is room for another block, and lets go of one that is used up
// if need be: what it served can then no longer be settled. The lock is held.
func (ls *lease) makeRoom() bool {
	if len(ls.blocks) < maxBlocks {
		return true
	}
	i := slices.IndexFunc(ls.blocks, func(b *leaseBlock) bool { return b.units.Load() == 0 && b.debt == 0 })
	if i < 0 {
		return false
	}
	b := ls.blocks[i]
	ls.blocks = slices.Delete(ls.blocks, i, i+1)
	ls.retire(b)
	return true
}

// warn tells the log that renewals fail, once in a minute.
func (l *Leases) warn(err error, now leaseTime) {
	last := l.warned.Load()
	if l.ctx.Err() == nil && (last == 0 || now.mono-last > int64(time.Minute)) && l.warned.CompareAndSwap(last, now.mono) {
		l.log.Warn("stint: a leased limit could not be renewed: its requests go to the store", "cause", err)
	}
}

// giveBackSoon gives back in the background. It reports false if too much is under way: what
// is not given back expires by itself.
func (l *Leases) giveBackSoon(g giveBack) bool {
	return l.job(&l.returning, maxReturns, func() { _ = l.giveBack(g) })
}

func (l *Leases) giveBack(g giveBack) error {
	ctx, cancel := context.WithTimeout(l.ctx, returnTime)
	defer cancel()
	_, err := l.inner.Amend(ctx, g.charge, stint.Amendment{Kind: stint.Settle, Cost: g.cost})
	return err
}

// Bounds on how long the janitor sleeps.
const (
	minSweep = 5 * time.Millisecond
	maxSweep = 100 * time.Millisecond
)

// sweepUntilIdle is the janitor: it ends blocks, renews those that are wanted but are not asked
// for at the right moment, and forgets leases that nobody wants. It goes when there are none.
func (l *Leases) sweepUntilIdle() {
	timer := time.NewTimer(minSweep)
	defer timer.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-timer.C:
		}
		now := l.now()
		next := int64(maxSweep)
		l.table.each(func(ls *lease) { next = min(next, l.look(ls, now)-now.mono) })
		took := l.now().mono - now.mono
		l.mu.Lock()
		if l.table.count == 0 {
			l.sweeping = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		// However many there are, it takes a twentieth of one core.
		timer.Reset(max(time.Duration(next), minSweep, min(20*time.Duration(took), maxSweep)))
	}
}

// look looks after one lease, and returns when to look again.
func (l *Leases) look(ls *lease, now leaseTime) (next int64) {
	length := int64(ls.length(l.roundTrip.Load()))
	next = now.mono + length/4
	var backs []giveBack
	ls.mu.Lock()
	before := len(ls.blocks)
	for len(ls.blocks) > 0 && !ls.blocks[0].live(now) && int(l.returning.Load())+len(backs) < maxReturns {
		b := ls.blocks[0]
		ls.blocks = slices.Delete(ls.blocks, 0, 1)
		if g, differs := ls.retire(b); differs {
			backs = append(backs, g)
		}
	}
	if len(ls.blocks) != before {
		ls.restock(now)
	}
	if total := ls.total(); total != ls.lastSeen {
		ls.lastSeen, ls.lastWanted = total, now.mono
	}
	idle := len(ls.blocks) == 0 && now.mono-ls.lastWanted > max(length, int64(idleTime)) && !ls.renewing.Load()
	ls.mu.Unlock()
	for _, g := range backs {
		if !l.giveBackSoon(g) {
			_ = l.giveBack(g) // others were quicker, or Close waits for us
		}
	}
	if idle {
		l.drop(ls, true)
		return math.MaxInt64
	}
	s := ls.stock.Load()
	if s == nil {
		return next
	}
	first := true
	for i := range s.shelves {
		b := &s.shelves[i]
		if !b.live(now) || b.units.Load() <= 0 {
			continue
		}
		if first && (b.units.Load() < b.low || now.mono >= b.renewAt) && ls.mayRenew(now) {
			l.renew(ls, now)
		}
		if first && b.renewAt > now.mono {
			next = min(next, b.renewAt)
		}
		first = false
		next = min(next, b.end.mono)
	}
	return next
}
