package resilience

import (
	"math"
	"time"
)

// Bounds on how long the sweeper sleeps.
const (
	minSweep = 5 * time.Millisecond
	maxSweep = 100 * time.Millisecond
)

// sweepUntilIdle is the sweeper: it ends blocks, renews leases whose requests do not come at the
// right moment to do so, and ends leases that are no longer wanted. It ends when there are none.
func (l *leases) sweepUntilIdle() {
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
		l.table.each(func(ls *lease) { next = min(next, l.sweep(ls, now)-now.mono) })
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

// sweep looks after one lease, and returns when to do so again.
func (l *leases) sweep(ls *lease, now leaseTime) (next int64) {
	length := int64(ls.length(l.roundTrip.Load()))
	next = now.mono + length/4
	var backs []giveBack
	ls.mu.Lock()
	before := len(ls.blocks)
	for len(ls.blocks) > 0 && !ls.blocks[0].live(now) && int(l.returning.Load())+len(backs) < maxReturns {
		if back, differs := ls.endBlock(0); differs {
			backs = append(backs, back)
		}
	}
	if len(ls.blocks) != before {
		ls.publish(now)
	}
	if total := ls.total(); total != ls.demand.seen {
		ls.demand.seen, ls.demand.changedAt = total, now.mono
	}
	unwanted := now.mono-ls.demand.changedAt > max(length, int64(idleTime))
	idle := len(ls.blocks) == 0 && unwanted && !ls.renewal.underWay.Load()
	ls.mu.Unlock()
	for _, g := range backs {
		if !l.giveBackSoon(g) {
			_ = l.giveBack(g) // others were quicker, or Close waits for us
		}
	}
	if idle {
		l.dropLease(ls, true)
		return math.MaxInt64
	}
	s := ls.snapshot.Load()
	if s == nil {
		return next
	}
	first := true
	for i := range s.blocks {
		b := &s.blocks[i]
		if !b.live(now) || b.units.Load() <= 0 {
			continue
		}
		if first && b.due(b.units.Load(), now) && ls.renewal.may(now) {
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
