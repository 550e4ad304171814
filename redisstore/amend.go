package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// Amend changes an earlier charge. See [stint.Store].
func (s *Store) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if err := s.await(ctx, "amend"); err != nil {
		return stint.Amended{}, err
	}
	return s.amend(ctx, c, a)
}

// amend is Amend for a connected store.
func (s *Store) amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	call := driver.AmendCall{Charge: c, Amendment: a}
	s.amendBatch(ctx, &s.conn, []*driver.AmendCall{&call})
	return call.Amended, call.Err
}

// AmendBatch amends charges in order. On a single server, one script call amends up to 128 of them.
// See [driver.BatchAmender].
func (s *Store) AmendBatch(ctx context.Context, batch []*driver.AmendCall) {
	if err := s.await(ctx, "amend"); err != nil {
		for _, call := range batch {
			call.Amended, call.Err = stint.Amended{}, err
		}
		return
	}
	if s.cluster {
		s.amendBatch(ctx, &s.conn, batch)
		return
	}
	f := s.conn.takeOff(ctx, "")
	defer f.land()
	s.amendBatch(ctx, f, batch)
}

// amendBatch is AmendBatch for a connected store.
func (s *Store) amendBatch(ctx context.Context, by caller, batch []*driver.AmendCall) {
	var open []*amending
	for _, call := range batch {
		q, err := s.prepare(call)
		if q != nil {
			open = append(open, q)
		} else {
			call.Amended, call.Err = stint.Amended{}, err
		}
	}
	if s.cluster {
		var group sync.WaitGroup
		for _, q := range open {
			group.Go(func() {
				ctx, cancel := until(ctx, q.Deadline)
				defer cancel()
				q.done, q.err = s.amendSplit(ctx, &q.charge, q.Amendment)
			})
		}
		group.Wait()
	} else {
		for some := range slices.Chunk(open, maxRuns) {
			s.sendAmend(ctx, by, some)
		}
	}
	for _, q := range open {
		s.finishAmend(q)
	}
}

type amending struct {
	*driver.AmendCall
	charge   stint.Charge // without the cost of claims that this process settled before
	released uint16       // a bit for each claim that prepare added to Store.released
	done     amended
	err      error
}

// prepare returns the amendment to send, or nil if there is nothing to send. It returns an error if
// the amendment is invalid.
func (s *Store) prepare(call *driver.AmendCall) (*amending, error) {
	c, a := call.Charge, call.Amendment
	if err := a.Validate(&c); err != nil || !contract.FromStore(&c) {
		return nil, err
	}
	if a.Kind == stint.AmendSettle && c.Data().Hold == 0 {
		// Omit claims that were settled before: set their cost to 0.
		c = s.unsettled(c)
		if !slices.ContainsFunc(c.Claims(), func(claim stint.Claim) bool { return contract.Charges(&claim) }) {
			return nil, nil
		}
	}
	q, gone := &amending{AmendCall: call, charge: c}, released(&c, &a)
	// Remember releases before sending them, so that no later heartbeat retakes a released place.
	for i := range c.Claims() {
		if gone>>i&1 != 0 && s.released.Add(c.Data().ID, &c.Claims()[i]) {
			q.released |= 1 << i
		}
	}
	return q, nil
}

// finishAmend fills in the result of the call. It remembers which claims were settled, and forgets
// releases that the server refused because the request had been repeated.
func (s *Store) finishAmend(q *amending) {
	c, kind := &q.charge, q.Amendment.Kind
	for i := range c.Claims() {
		if kind == stint.AmendSettle && q.done.claims>>i&1 != 0 && c.Data().Hold == 0 {
			s.settled.Add(c.Data().ID, &c.Claims()[i])
		}
		if q.done.repeated && q.released>>i&1 != 0 {
			s.released.Remove(c.Data().ID, &c.Claims()[i])
		}
	}
	changed := q.done.claims != 0
	if kind == stint.AmendExtend {
		wanted := extended(c)
		changed = changed && q.done.claims&wanted == wanted
	}
	q.Amended = stint.Amended{Changed: changed, Charged: max(q.done.total-q.done.dropped, 0)}
	q.Err = s.wrap("amend", q.err)
}

// claimsWith returns a set of claims, as bits: bit i is set if claim i was charged under a limit
// for which the function among returns true.
func claimsWith(c *stint.Charge, among func(*stint.Limit) bool) (claims uint16) {
	for i := range c.Claims() {
		claim := &c.Claims()[i]
		if slices.ContainsFunc(claim.Limits, func(l stint.Limit) bool { return claim.CostOf(&l) > 0 && among(&l) }) {
			claims |= 1 << i
		}
	}
	return claims
}

// released returns the claims whose places an amendment releases, as bits. It omits the claims of a
// settled charge without a hold, because Store.settled remembers them.
func released(c *stint.Charge, a *stint.Amendment) (claims uint16) {
	return claimsWith(c, func(l *stint.Limit) bool {
		total, named := contract.TotalOf(a, l.Name)
		return isPlace(*l) && (a.Kind == stint.AmendRelease ||
			a.Kind == stint.AmendSettle && c.Data().Hold > 0 && named && total == 0)
	})
}

// extended returns the claims that a heartbeat must extend, as bits: the claims that took a place
// or, if none did and the charge has a hold, all charged claims.
func extended(c *stint.Charge) (claims uint16) {
	claims = claimsWith(c, func(l *stint.Limit) bool { return isPlace(*l) })
	if claims == 0 && c.Data().Hold > 0 {
		claims = claimsWith(c, func(*stint.Limit) bool { return true })
	}
	return claims
}

// unsettled returns a copy of a charge in which the claims that this process has settled cost
// nothing.
func (s *Store) unsettled(c stint.Charge) stint.Charge {
	c.SetClaims(c.Claims()) // makes a copy
	for i := range c.Claims() {
		claim := &c.Claims()[i]
		if s.settled.Has(c.Data().ID, claim) {
			claim.Cost, claim.Costs = 0, nil
		}
	}
	return c
}

// amendOne amends a charge in one call.
func (s *Store) amendOne(ctx context.Context, c *stint.Charge, a stint.Amendment) (amended, error) {
	q := &amending{AmendCall: &driver.AmendCall{Amendment: a}, charge: *c}
	s.sendAmend(ctx, &s.conn, []*amending{q})
	return q.done, q.err
}

// retakes returns the claims whose lost places a heartbeat may take back, as bits. It omits claims
// that this process has settled or released.
func (s *Store) retakes(c *stint.Charge, a stint.Amendment) (claims uint16) {
	if a.Kind != stint.AmendExtend || a.KnownOnly {
		return 0
	}
	for i := range c.Claims() {
		claim := &c.Claims()[i]
		if !s.settled.Has(c.Data().ID, claim) && !s.released.Has(c.Data().ID, claim) {
			claims |= 1 << i
		}
	}
	return claims
}

// sendAmend sends amendments to amend.lua. If the server's clock has been set, the server may
// wrongly refuse amendments as too late. Its reply contains the new time, so sendAmend sends the
// refused amendments once more, with their deadlines converted to the new time.
func (s *Store) sendAmend(ctx context.Context, by caller, batch []*amending) {
	for again := false; len(batch) > 0; again = true {
		c, err := s.encodeAmend(ctx, batch)
		var reply string
		if err == nil {
			reply, err = c.script.run(ctx, by, c.keys, c.args)
		}
		var late []*amending
		if err == nil {
			late, err = c.decodeAmend(batch, reply)
		}
		if err != nil {
			for _, q := range batch {
				q.done, q.err = amended{}, err
			}
		}
		if again || ctx.Err() != nil {
			return
		}
		batch = late
	}
}

// heartbeatDeadline returns the time after which a heartbeat must have no effect: the deadline of
// its caller or, if that is earlier, the current time plus the shortest of the hold and the windows
// of the charge's places.
func heartbeatDeadline(ctx context.Context, q *amending) time.Time {
	shortest := stint.MaxWindow
	for _, l := range contract.Limits(q.charge.Claims()) {
		if isPlace(*l) {
			shortest = min(shortest, l.Window)
		}
	}
	if hold := q.charge.Data().Hold; hold > 0 {
		shortest = min(shortest, hold)
	}
	deadline := time.Now().Add(shortest)
	if own, ok := ctx.Deadline(); ok && own.Before(deadline) {
		deadline = own
	}
	if !q.Deadline.IsZero() && q.Deadline.Before(deadline) {
		deadline = q.Deadline
	}
	return deadline
}
