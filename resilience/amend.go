package resilience

import (
	"context"
	"errors"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// amendTime is the time limit of a heartbeat, a command or an inspection, unless the caller set an
// earlier deadline. It is also the time limit of a probe. No decision waits for any of these.
const amendTime = time.Second

// Amend implements [stint.Store]. It amends a charge where it was made: in its lease, in the store
// or in this process.
func (s *Stack) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (done stint.Amended, err error) {
	if c.Data().Leased != 0 {
		done, err = s.amendLeased(ctx, c, a)
	} else {
		done, err = s.amend(ctx, c, a)
	}
	if s.denials != nil && a.Kind != stint.AmendExtend {
		// Drop denials only after the amendment, because it may make units available. Drop them
		// after an error, too: the store may have made the amendment.
		for i := range c.Claims() {
			s.denials.dropSubject(c.Claims()[i].Subject)
		}
	}
	return done, err
}

// AmendsInOrder returns true: a holder need not wait for its heartbeats before it gives up its
// place; see package driver.
func (s *Stack) AmendsInOrder() bool { return true }

// amend amends a charge in the store if the store made it, otherwise in this process. If the store
// fails to make a settlement or a release within the time budget, the amendment is made later, so
// that no response waits for it. If too many amendments are waiting already, amend returns an error
// without changing anything, so the caller can try again.
func (s *Stack) amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if err := a.Validate(&c); err != nil {
		return stint.Amended{}, err
	}
	if err := ctx.Err(); err != nil {
		return stint.Amended{}, gaveUp(opAmend, err)
	}
	if a.Kind != stint.AmendExtend {
		switch open, onlyPlaces := s.ledger.isOpen(&c, &a); {
		case !open:
			return stint.Amended{}, nil // the amendment has been made, or is queued
		case onlyPlaces && a.Costs == nil:
			// An earlier settlement may still be on its way to the store. This amendment must not
			// take effect instead of it, so it only releases places.
			a = stint.Amendment{Kind: stint.AmendRelease}
		}
	}
	switch {
	case c.Data().Fallback && c.Data().ID>>markShift != s.ledger.mark:
		return stint.Amended{}, nil
	case a.Kind != stint.AmendExtend && !s.sender.may():
		return stint.Amended{}, &stint.StoreError{Op: opAmend, Kind: stint.KindRefused, Err: errTooMany}
	case c.Data().Fallback:
		return s.amendOwn(ctx, c, a)
	}
	return s.amendStored(ctx, c, a)
}

func (s *Stack) amendStored(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if a.Kind == stint.AmendExtend {
		done, err := s.beat(ctx, &c, c, a)
		s.noteFailure(err, &c.Claims()[0])
		s.ledger.extended(&c, err == nil && done.Changed)
		if c.Data().Hold > 0 && c.Data().RequestID != "" {
			s.ledger.prolong(&c)
		}
		return done, err
	}
	sent := s.ledger.now()
	_, void := s.ledger.released(&c, a)
	j := newJob(c, a, nil)
	if !contract.FromStore(&c) {
		return s.finish(ctx, j, void, nil)
	}
	open := s.ledger.unsettled(c, &a)
	j.done = func(done stint.Amended) { s.ledger.amended(&open, a, done.Charged, sent) }
	return s.finish(ctx, j, void, func() {
		if a.Kind == stint.AmendSettle && raises(&open, &a) {
			j.done = s.ledger.raise(&open, a)
		}
	})
}

// beat sends a heartbeat of charge c to the store. The argument store is c as the store knows it.
// If the heartbeat is not answered, beat records that, because the heartbeat may still arrive until
// its deadline.
func (s *Stack) beat(ctx context.Context, c *stint.Charge, store stint.Charge, a stint.Amendment) (
	done stint.Amended, err error) {
	deadline := earlier(ctx, time.Now().Add(amendTime))
	if done, err = s.amends.amended(ctx, store, a, deadline); err == nil {
		return done, nil
	}
	// On a Cluster, each subject has its own call: the error of one proves nothing about the
	// others.
	if len(store.Claims()) > 1 || !neverRan(err) {
		s.ledger.unanswered(c, time.Until(deadline))
	}
	return done, err
}

// finish tries, within the time budget, to do a job that settles or releases a charge of the store.
// If the store fails, finish defers the job. It also defers the job if a heartbeat of the charge
// may still arrive: void is the remaining time in which it may arrive, or 0. If before is not nil,
// finish calls it before it defers the job.
func (s *Stack) finish(ctx context.Context, j *job, void time.Duration, before func()) (
	done stint.Amended, err error) {
	c, a := j.Charge, j.Amendment
	if void <= 0 {
		done, err = s.amends.amended(context.WithoutCancel(ctx), c, a, time.Now().Add(s.config.Failure.Budget))
		s.noteFailure(err, &c.Claims()[0])
		if _, failed := errors.AsType[*stint.StoreError](err); !failed {
			if err == nil && done.Changed {
				s.ledger.noteAll(&c, &a)
				if j.done != nil {
					j.done(done)
				}
			}
			return done, err
		}
	}
	if before != nil {
		before()
	}
	s.sender.add(j, void)
	s.ledger.noteAll(&c, &a)
	return stint.Amended{Changed: true, Charged: contract.Total(&a)}, nil
}

// amendOwn amends a local charge in this process. If the store has charged it, too, amendOwn also
// amends it there.
func (s *Stack) amendOwn(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if a.Kind == stint.AmendExtend {
		return s.extendOwn(ctx, c, a)
	}
	held, void := s.ledger.released(&c, a)
	o := s.ledger.entries.get(c.Data().ID)
	made := s.ledger.settle(o, &c, a, held)
	s.sender.finish(made.backs)
	s.sender.start()
	if made.stored.Data().ID == 0 && o == nil && held { // a heartbeat may have made the place known to the store
		made.stored, a = stored(&c), stint.Amendment{Kind: stint.AmendRelease}
	}
	if made.stored.Data().ID != 0 {
		done, err := s.finish(ctx, newJob(made.stored, a, made.charged), void, nil)
		if err != nil || o != nil {
			return done, err
		}
	}
	return made.done, nil
}

// stored returns a local charge as the store knows it: not marked as a fallback, and without a
// request ID.
func stored(c *stint.Charge) stint.Charge {
	store := *c
	store.Data().Fallback, store.Data().RequestID, store.Data().IDLife = false, "", 0
	return store
}

// extendOwn extends the hold and the places of a charge that was granted without the store. A
// heartbeat that reaches the store makes the charge a holder there, too.
func (s *Stack) extendOwn(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	placed, o := s.ledger.extended(&c, false), s.ledger.entries.get(c.Data().ID)
	if !placed && (o == nil || c.Data().Hold == 0) {
		return stint.Amended{}, nil // the charge is lost, settled or forgotten
	}
	store := stored(&c)
	if o != nil {
		switch charge, later := s.ledger.beat(o, &c, a); {
		case charge.Data().ID != 0:
			store = partOf(&charge, &c)
		case later: // nothing can be sent until the store has charged the debt
			return stint.Amended{Changed: true}, nil
		case !placed:
			return stint.Amended{}, nil
		}
	}
	done, err := s.beat(ctx, &c, store, a)
	if err != nil { // the hold continues in this process
		return stint.Amended{Changed: true}, nil
	}
	if done.Changed {
		s.ledger.extended(&c, true)
	}
	return done, nil
}

// Command implements [stint.Store]. The command takes effect in this process too, even if the store
// fails.
func (s *Stack) Command(ctx context.Context, c stint.Command) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if s.leases != nil {
		s.leases.commanded(&c)
		defer s.leases.commanded(&c) // again, for units that were leased during the call
	}
	if s.denials != nil {
		defer s.denials.dropSubject(c.Subject) // after the call, whatever its outcome, as in Amend
	}
	if c.Kind == stint.CommandReset {
		// Wait for debts that are being charged: they must not arrive after the reset.
		end := time.Now().Add(sendTime)
		for _, o := range s.ledger.forget(&c) {
			for s.ledger.isFlying(o) && time.Now().Before(end) && ctx.Err() == nil {
				sleep(ctx, time.Millisecond)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, amendTime)
	defer cancel()
	sent := s.ledger.now()
	err := s.store.command(ctx, c)
	s.noteFailure(err, &stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits})
	s.ledger.commanded(&c, err == nil, sent)
	return err
}

// noteFailure records the failure of a call to which no failure mode applies. claim is the claim of
// the failed call, or nil if there is none.
func (s *Stack) noteFailure(err error, claim *stint.Claim) {
	if failure, ok := errors.AsType[*stint.StoreError](err); ok && !errors.Is(err, context.Canceled) {
		s.failed(failure, &s.outage.others, claim, "")
	}
}
