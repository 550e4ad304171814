package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

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

// amend is Amend once there is a connection.
func (s *Store) amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	call := driver.AmendCall{Charge: c, Amendment: a}
	s.amendBatch(ctx, &s.conn, []*driver.AmendCall{&call})
	return call.Amended, call.Err
}

// AmendBatch amends charges in their order, on a single server in one script call for 128 of them.
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

// amendBatch is AmendBatch once there is a connection.
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
			group.Go(func() { s.amendSplitCall(ctx, q) })
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

// amendSplitCall amends a charge on a Cluster, within the time of its own caller.
func (s *Store) amendSplitCall(ctx context.Context, q *amending) {
	if !q.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, q.Deadline)
		defer cancel()
	}
	q.done, q.err = s.amendSplit(ctx, &q.charge, q.Amendment)
}

// amending is an amendment that is being made.
type amending struct {
	*driver.AmendCall
	charge stint.Charge // without what was settled before
	done   amended
	err    error
}

// prepare returns an amendment that is to be sent; nil, and the error, if there is nothing to send.
func (s *Store) prepare(call *driver.AmendCall) (*amending, error) {
	c, a := call.Charge, call.Amendment
	if err := a.Validate(&c); err != nil || !contract.FromStore(&c) {
		return nil, err
	}
	if a.Kind == stint.AmendSettle {
		// Claims that were settled before are left out, as if they had cost nothing.
		c = s.unsettled(c)
		if !slices.ContainsFunc(c.Claims(), func(claim stint.Claim) bool { return claim.Cost > 0 }) {
			return nil, nil
		}
	}
	if a.Kind == stint.AmendRelease {
		for i := range c.Claims() { // before sending: no later heartbeat takes it back
			s.released.Add(c.Data().ID, &c.Claims()[i])
		}
	}
	return &amending{AmendCall: call, charge: c}, nil
}

// finishAmend notes what was settled, and fills in the answer.
func (s *Store) finishAmend(q *amending) {
	c, kind := &q.charge, q.Amendment.Kind
	for i := range c.Claims() {
		if kind == stint.AmendSettle && q.done.claims>>i&1 != 0 {
			s.settled.Add(c.Data().ID, &c.Claims()[i])
		}
	}
	changed := q.done.claims != 0
	if kind == stint.AmendExtend {
		changed = changed && q.done.claims == placesOf(c)
	}
	q.Amended, q.Err = stint.Amended{Changed: changed, Charged: q.done.charged}, s.wrap("amend", q.err)
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
	q := &amending{AmendCall: &driver.AmendCall{Amendment: a}, charge: *c}
	s.sendAmend(ctx, &s.conn, []*amending{q})
	return q.done, q.err
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

// sendAmend makes one call of amend.lua, and another one for those that came too late: there is
// time left, so the server's clock was set, and its reply had the new time.
func (s *Store) sendAmend(ctx context.Context, by caller, batch []*amending) {
	for again := false; len(batch) > 0; again = true {
		call := s.nextCall()
		keys, args, err := s.packAmend(ctx, batch, call)
		var reply string
		if err == nil {
			reply, err = amendScript.run(ctx, by, keys, args)
		}
		var now int64
		var late []*amending
		if err == nil {
			now, late, err = readAmend(reply, call, batch)
		}
		if err != nil {
			for _, q := range batch {
				q.done, q.err = amended{}, err
			}
			return
		}
		s.learnTime(now, len(late) > 0)
		if again || ctx.Err() != nil {
			return
		}
		batch = late
	}
}

// readAmend fills in the answers of a reply of amend.lua. It returns the server's clock, and those
// that came too late.
func readAmend(reply string, call uint64, batch []*amending) (now int64, late []*amending, err error) {
	in, now, err := opening(reply, call)
	if err != nil {
		return 0, nil, err
	}
	for _, q := range batch {
		if q.done, q.err = in.amended(); q.err == errLate {
			late = append(late, q)
		}
	}
	return now, late, in.end()
}

// packAmend returns keys and arguments for amend.lua. A heartbeat says until when its caller waits:
// later it would take a place for somebody who may have released it.
func (s *Store) packAmend(ctx context.Context, batch []*amending, call uint64) (keys, args []string, err error) {
	k, err := s.newKeys()
	if err != nil {
		return nil, nil, err
	}
	var sets callSets
	body := le.AppendUint16(make([]byte, 0, 128*len(batch)), uint16(len(batch)))
	args = []string{""}
	for _, q := range batch {
		c := &q.charge
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
		if id := c.Data().RequestID; id != "" {
			k.inScope(c.Claims()[0].Subject, c.Claims()[0].Scope, seenKey)
			args = append(args, k.names.id(id))
		}
		notAfter, retake := int64(0), s.retakes(c, q.Amendment)
		if q.Amendment.Kind == stint.AmendExtend {
			if notAfter = s.notAfter(heartbeatDeadline(ctx, q)); notAfter == 0 && s.clock() == 0 {
				retake = 0 // the server's clock is not known
			}
		}
		body = appendAmendment(body, c, q.Amendment, parts, notAfter, retake, &sets)
	}
	b := sets.appendTo(appendStart(make([]byte, 0, 256+len(body)), call, s.clock()))
	args[0] = rueidis.BinaryString(append(b, body...))
	return k.strings(), args, nil
}

// heartbeatDeadline is until when a heartbeat is wanted: no longer than a place lasts.
func heartbeatDeadline(ctx context.Context, q *amending) time.Time {
	shortest := stint.MaxWindow
	for _, l := range contract.Limits(q.charge.Claims()) {
		if isPlace(*l) {
			shortest = min(shortest, l.Window)
		}
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
