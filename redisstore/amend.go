package redisstore

import (
	"context"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// Amend changes an earlier charge. See [stint.Store].
func (s *Store) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if err := s.await(ctx, "amend"); err != nil {
		return stint.Amended{}, err
	}
	return s.amend(ctx, c, a)
}

// amend is Amend once there is a connection.
func (s *Store) amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if err := a.Validate(&c); err != nil {
		return stint.Amended{}, err
	}
	if !contract.FromStore(&c) {
		return stint.Amended{}, nil
	}
	if a.Kind == stint.AmendSettle {
		// Claims that were settled before are left out, as if they had cost nothing.
		c = s.unsettled(c)
		if !slices.ContainsFunc(c.Claims(), func(claim stint.Claim) bool { return claim.Cost > 0 }) {
			return stint.Amended{}, nil
		}
	}
	if a.Kind == stint.AmendRelease {
		for i := range c.Claims() { // before sending: no later heartbeat takes it back
			claim := &c.Claims()[i]
			s.released.Add(c.Data().ID, claim)
		}
	}
	var done amended
	var err error
	if s.cluster && len(c.Claims()) > 1 {
		done, err = s.amendSplit(ctx, &c, a)
	} else {
		done, err = s.amendOne(ctx, &c, a)
	}
	if a.Kind == stint.AmendSettle {
		for i := range c.Claims() {
			claim := &c.Claims()[i]
			if done.claims>>i&1 != 0 {
				s.settled.Add(c.Data().ID, claim)
			}
		}
	}
	changed := done.claims != 0
	if a.Kind == stint.AmendExtend {
		changed = changed && done.claims == placesOf(&c)
	}
	return stint.Amended{Changed: changed, Charged: done.charged}, s.wrap("amend", err)
}

// placesOf has a bit for each claim that took a place.
func placesOf(c *stint.Charge) (claims uint16) {
	for i := range c.Claims() {
		claim := &c.Claims()[i]
		if claim.Cost > 0 && slices.ContainsFunc(claim.Limits, isPlace) {
			claims |= 1 << i
		}
	}
	return claims
}

func isPlace(l stint.Limit) bool { return l.Algorithm == stint.AlgorithmConcurrency }

// unsettled returns a charge in which claims that this process has settled cost nothing.
func (s *Store) unsettled(c stint.Charge) stint.Charge {
	c.SetClaims(c.Claims()) // its own
	for i := range c.Claims() {
		claim := &c.Claims()[i]
		if s.settled.Has(c.Data().ID, claim) {
			claim.Cost = 0
		}
	}
	return c
}

// amendOne amends a charge in one call.
func (s *Store) amendOne(ctx context.Context, c *stint.Charge, a stint.Amendment) (amended, error) {
	k, err := s.newKeys()
	if err != nil {
		return amended{}, err
	}
	parts := partsOf(nil, c.Claims())
	s.sets.fill(parts)
	for i := range c.Claims() {
		claim := &c.Claims()[i]
		k.inScope(claim.Subject, claim.Scope, "settled")
		for j := range parts {
			if parts[j].claim == i {
				k.ofPart(&parts[j])
			}
		}
	}
	if c.Data().RequestID != "" {
		k.inScope(c.Claims()[0].Subject, c.Claims()[0].Scope, seenKey)
	}
	done, err := s.sendAmend(ctx, &k, c, a, parts, s.retakes(c, a))
	if moving(err) {
		return s.amendMigrating(ctx, c, a, err)
	}
	return done, err
}

// retakes has a bit for each claim that a heartbeat may take places back for: not those that this
// process has given up.
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

// sendAmend makes one call of amend.lua. A heartbeat says until when its caller waits: later it
// would take a place for somebody who may have released it.
func (s *Store) sendAmend(
	ctx context.Context, k *keys, c *stint.Charge, a stint.Amendment, parts []part, retake uint16,
) (amended, error) {
	keys, id := k.strings(), k.names.id(c.Data().RequestID)
	for again := false; ; again = true {
		notAfter := int64(0)
		if a.Kind == stint.AmendExtend {
			if notAfter = s.notAfter(heartbeatDeadline(ctx, c)); notAfter == 0 && s.clock() == 0 {
				retake = 0 // the server's clock is not known
			}
		}
		call := s.nextCall()
		reply, err := amendScript.run(ctx, &s.conn, keys,
			amendArgs(c, a, parts, id, call, s.clock(), notAfter, retake))
		if err != nil {
			return amended{}, err
		}
		now, done, err := decodeAmend(reply, call)
		if err != nil && err != errLate {
			return amended{}, err
		}
		s.learnTime(now, err == errLate)
		if err == nil || again || ctx.Err() != nil {
			return done, err
		}
		// There is time left: the server's clock was set, and its reply had the new time.
	}
}

// heartbeatDeadline is until when a heartbeat is wanted: no longer than a place lasts.
func heartbeatDeadline(ctx context.Context, c *stint.Charge) time.Time {
	shortest := stint.MaxWindow
	for _, l := range contract.Limits(c.Claims()) {
		if isPlace(*l) {
			shortest = min(shortest, l.Window)
		}
	}
	deadline := time.Now().Add(shortest)
	if own, ok := ctx.Deadline(); ok && own.Before(deadline) {
		return own
	}
	return deadline
}
