package envoyrls

import (
	"context"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// countFixed completes a decision in fixed windows. asked is the time of the call to the store.
// Fixed windows count hits whether they are admitted or not: once a counter is above its limit,
// every later request in the window is denied, even a request with zero hits.
//
// A store does not charge denied requests, so countFixed charges the hits of the first denial. It
// does not charge the hits of later denials, because they make no visible difference.
func (s *Service) countFixed(ctx context.Context, deadline time.Time, it *item, d *stint.Decision, asked time.Time) {
	limit := it.rule.max()
	it.over = it.over || it.neverFits()
	switch {
	case it.refund:
		s.lower(ctx, deadline, it)
	case d.Degraded:
	case it.cost() == 0:
		it.over = false // the usage decides below
	case it.over && it.usage.Used <= limit && limit > 0:
		s.exceed(ctx, deadline, it, asked)
	}
	it.over = it.over || it.usage.Used > limit
	if it.over {
		it.usage.Used = max(it.usage.Used, limit) // no hits remain
	}
	if it.usage.ResetAfter <= 0 {
		_, it.usage.ResetAfter = s.inWindow(&it.rule.limits[s.options.Window][0])
	}
}

// exceed charges denied hits under a limit that has room for any number of hits. This limit has the
// same counter as the item's limit, because the counter does not depend on the maximum.
func (s *Service) exceed(ctx context.Context, deadline time.Time, it *item, asked time.Time) {
	before, limit := it.usage, &it.rule.limits[s.options.Window][0]
	claim := it.claim(s.options.Window)
	claim.Limits = slices.Clone(claim.Limits)
	claim.Limits[0].Max, claim.Cost = stint.MaxUnits, it.cost()
	r := s.request(deadline, []stint.Claim{claim}, stint.ModeTake)
	r.Terms().Fit, r.Failure = true, &stint.FailurePolicy{Mode: stint.FailError, Budget: amendTime}
	var reset time.Duration // valid only after the operation has finished
	err := s.finish(ctx, deadline, func(ctx context.Context) error {
		d, err := s.store.Take(ctx, r)
		if err != nil || !d.Allowed {
			return err // the request is denied in any case
		}
		later := d.Decisive().ResetAfter > before.ResetAfter
		if before.Used == 0 {
			gone, left := s.inWindow(limit)
			later = gone+left-d.Decisive().ResetAfter < s.options.Now().Sub(asked)
		}
		if reset = d.Decisive().ResetAfter; later {
			// The window of the charge may have begun after the denial. The denied hits must not
			// use it up.
			reset = time.Second
			_, err = s.store.Amend(ctx, d.Charge, stint.Amendment{Kind: stint.AmendSettle})
		}
		return err
	})
	switch {
	case err != nil:
		s.complain("stint: a counter could not be raised above its limit", err)
	case before.Used == 0 && reset > 0:
		it.usage.ResetAfter = reset
	}
}

// lower gives the item's hits back, but not more than the counter has.
func (s *Service) lower(ctx context.Context, deadline time.Time, it *item) {
	if it.hits == 0 || it.usage.Used == 0 && !it.degraded {
		return
	}
	if s.giveBack(ctx, deadline, []stint.Command{it.giveBack(s.options.Window)}) == nil {
		it.usage.Used = max(it.usage.Used-it.hits, 0)
		it.over = false // countFixed sets it again if the usage is above the limit
	}
}

// inWindow returns how much of the current window of l has passed and how much is left, by this
// host's clock.
func (s *Service) inWindow(l *stint.Limit) (gone, left time.Duration) {
	now := s.options.Now().UnixMicro()
	begin, end := contract.Period(l, now)
	return time.Duration(now-begin) * time.Microsecond, time.Duration(end-now) * time.Microsecond
}
