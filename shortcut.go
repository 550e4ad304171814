package stint

import (
	"context"
	"time"

	"github.com/stint-limiter/stint/internal/shortcut"
)

// shortcutStore is a shorter way to ask a store in memory, for the simplest requests. To hand over
// the claims of a [Request] and a [Decision] takes such a store about as long as to decide. If all
// results are in registers, Limiter.Allow takes 30 % less time, and 10 % less with three usages on
// the stack.
type shortcutStore interface {
	// TakeOne decides as Take would on a request that has this subject, limit and cost, and nothing
	// else. The results are those in the Decision and its Charge: the request is allowed if the id
	// is not 0. If it is not ok, nothing was decided and nothing charged: Take has to be asked.
	TakeOne(ctx context.Context, limit *Limit, subject string, cost int64) (
		id uint64, now int64, generation uint32, u Usage, ok bool)
	// TakeFew is TakeOne for as many limits as there are usages, or fewer. Retry is the Decision's
	// RetryAfter.
	TakeFew(ctx context.Context, limits []Limit, subject string, cost int64) (
		id uint64, now int64, generation uint32, retry time.Duration, few [inlineUsages]Usage, ok bool)
}

// findShortcut returns the shorter way to ask the store, or nil if the limiter cannot use one.
func (l *Limiter) findShortcut() shortcutStore {
	if len(l.limits) > inlineUsages || l.bans != nil || l.log != nil {
		return nil
	}
	s, _ := shortcut.Of(l.store).(shortcutStore)
	return s
}

// allowShort is allow by way of the shortcut. It reports false if that does not decide.
func (l *Limiter) allowShort(ctx context.Context, subject string, n int64, d *Decision) (ok bool) {
	c := &d.Charge.data
	if d.count = uint8(len(l.limits)); d.count == 1 {
		c.ID, c.Now, c.Generation, d.few[0], ok = l.shortcut.TakeOne(ctx, &l.limits[0], subject, n)
		d.RetryAfter = d.few[0].RetryAfter
	} else {
		c.ID, c.Now, c.Generation, d.RetryAfter, d.few, ok = l.shortcut.TakeFew(ctx, l.limits, subject, n)
	}
	if c.ID != 0 {
		d.Allowed, c.At = true, c.Now
	} else {
		d.Denier = 1
	}
	claim := &d.Charge.one[0]
	claim.Subject, claim.Limits, claim.Cost = subject, l.limits, n
	return ok
}
