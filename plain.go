package stint

import (
	"context"
	"time"
)

// plainStore is a store that can decide for Allow without a [Request] and a [Decision]. For a store
// in memory, passing these two values takes about as long as deciding, so Limiter.Allow takes half
// the time with a plainStore.
type plainStore interface {
	// TakePlain decides as Take would decide a request with only this subject, scope, limits and
	// cost and, if bans is true, a ban policy. The results are the values that Take would put in
	// the Decision and its Charge. The request is allowed if id is not 0. If ok is false, nothing
	// was decided or charged, and the caller must call Take.
	TakePlain(ctx context.Context, subject, scope string, limits []Limit, cost int64, bans bool) (
		id uint64, now int64, generation uint32, retry time.Duration, ok bool, first, second, third Usage)
}

// findPlain returns the store as a plainStore, or nil if the limiter cannot use it. It returns nil
// for a store that inherits the method Plain from an embedded store, because the outer store must
// see every request.
func (l *Limiter) findPlain() plainStore {
	if len(l.limits) > inlineUsages || l.log != nil {
		return nil
	}
	s, ok := l.store.(interface {
		Plain() (store Store, taker any)
	})
	if !ok {
		return nil
	}
	store, taker := s.Plain()
	if store != l.store {
		return nil
	}
	p, _ := taker.(plainStore)
	return p
}

// allowPlain is like AllowN, but calls TakePlain. It reports false if TakePlain does not decide.
func (l *Limiter) allowPlain(ctx context.Context, subject string, n int64, d *Decision) (ok bool) {
	c, few := &d.Charge.data, &d.few
	c.ID, c.Now, c.Generation, d.RetryAfter, ok, few[0], few[1], few[2] = l.plain.TakePlain(ctx, subject, "",
		l.limits, n, l.bans != nil)
	d.count = uint8(len(l.limits))
	if c.ID != 0 {
		d.Allowed, c.At = true, c.Now
	} else {
		d.Denier = 1
	}
	claim := &d.Charge.one[0]
	claim.Subject, claim.Limits, claim.Cost = subject, l.limits, n
	return ok
}
