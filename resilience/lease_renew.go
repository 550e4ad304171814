package resilience

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/errkind"
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
	// A renewal applies bans, but its denials are nobody's fault and lead to none.
	applyBans = stint.BanPolicy{}
	// Units that a fallback grants cannot be leased.
	failRenewal = stint.FailurePolicy{Mode: stint.FailError}
)

// job runs f in the background, unless there are too many of its kind or leases is closed.
func (l *leases) job(kind *atomic.Int32, most int32, f func()) bool {
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

// renew renews a lease in the background, unless that is under way.
func (l *leases) renew(ls *lease, now leaseTime) {
	if !ls.renewal.underWay.CompareAndSwap(false, true) {
		return
	}
	if !l.job(&l.renewing, maxRenewals, func() { l.renewNow(ls, now) }) {
		ls.renewal.wait(now, time.Millisecond)
		ls.renewal.underWay.Store(false)
	}
}

// renewNow asks for the next block. In a busy process it starts some time after it was called for:
// that counts as part of the round trip, within reason.
func (l *leases) renewNow(ls *lease, called leaseTime) {
	defer ls.renewal.underWay.Store(false)
	sent := l.now() // before anything else: the end counts from here
	roundTrip := l.roundTrip.Load()
	ls.mu.Lock()
	var ask int64
	var length time.Duration
	pause := minLease
	if !ls.ended && ls.makeRoom() {
		ask, length, pause = ls.plan(sent, roundTrip)
		ls.publish(sent) // with the new low and lead
	}
	ls.mu.Unlock()
	if ask == 0 {
		ls.renewal.wait(sent, pause)
		return
	}

	r := driver.WithTerms(
		stint.Request{Claims: []stint.Claim{ls.claim}, Failure: &failRenewal},
		driver.Terms{Lease: length},
	)
	r.Claims[0].Cost = ask
	if ls.bans {
		r.Bans = &applyBans
	}
	ctx, cancel := context.WithTimeout(l.ctx, length)
	d, err := l.store.Take(ctx, r)
	cancel()
	now := l.now()
	if err == nil && (d.Degraded || d.Allowed && !contract.FromStore(&d.Charge)) {
		err = errors.New("the units were not granted by the store")
	}
	if err == nil || errors.Is(err, context.DeadlineExceeded) && errkind.Of(err) != errkind.Refused {
		// too far away is worth knowing too
		l.measure(max(now.mono-sent.mono, min(now.mono-called.mono, int64(length/4))))
	}
	switch {
	case err != nil:
		l.warn(err, now)
		ls.renewal.wait(now, jitter(renewPause))
	case d.Banned:
		l.dropLease(ls, true)
	case !d.Allowed:
		pause = denyPause
		if d.RetryAfter != stint.Never {
			pause = min(pause, d.RetryAfter)
		}
		ls.renewal.wait(now, pause)
	default:
		if granted := d.Charge.Claims()[0].Cost; granted < ask {
			// There is no more. What comes back meanwhile is for requests of all processes.
			ls.renewal.wait(now, length/4)
		}
		l.arrived(ls, &d, sent, now, length)
	}
}

// arrived adds the block that a renewal brought.
func (l *leases) arrived(ls *lease, d *stint.Decision, sent, now leaseTime, length time.Duration) {
	life := int64(length - length/1024) // a clock may run slow
	b := &leaseBlock{
		end:     leaseTime{wall: sent.wall + life, mono: sent.mono + life},
		granted: d.Charge.Claims()[0].Cost,
		charge:  d.Charge,
	}
	b.units.Store(b.granted)
	ls.mu.Lock()
	ended, returns := ls.ended, ls.returns
	if !ended {
		ls.usage = leaseUsage{slices.Clone(d.Usages()), now.mono}
		ls.add(b)
		ls.publish(now)
	}
	ls.mu.Unlock()
	if ended && returns {
		_ = l.giveBack(giveBack{charge: d.Charge})
	}
}

// warn logs that renewals fail, once a minute.
func (l *leases) warn(err error, now leaseTime) {
	last := l.warned.Load()
	if l.ctx.Err() == nil && (last == 0 || now.mono-last > int64(time.Minute)) &&
		l.warned.CompareAndSwap(last, now.mono) {
		l.log.Warn("stint: a leased limit could not be renewed: its requests go to the store", "cause", err)
	}
}

// giveBackSoon gives back in the background. It reports false if too much is under way: what is not
// given back expires by itself.
func (l *leases) giveBackSoon(g giveBack) bool {
	return l.job(&l.returning, maxReturns, func() { _ = l.giveBack(g) })
}

func (l *leases) giveBack(g giveBack) error {
	ctx, cancel := context.WithTimeout(l.ctx, returnTime)
	defer cancel()
	// All of the debt is charged: each settlement that made it was bounded.
	_, err := l.store.Amend(ctx, g.charge, stint.Amendment{Kind: stint.AmendSettle, Cost: g.cost, MaxDebt: g.debt})
	return err
}
