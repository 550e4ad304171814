package resilience

import (
	"context"
	"errors"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/errkind"
)

func (f *fallback) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if !c.Data().Fallback {
		done, err := f.inner.Amend(ctx, c, a)
		f.noteFailure(err, &c.Claims()[0])
		if done.Changed && err == nil && contract.FromStore(&c) {
			f.local.amended(&c, a)
		}
		return done, err
	}
	if err := a.Validate(&c); err != nil {
		return stint.Amended{}, err
	}
	if c.Data().ID>>markShift != f.local.mark {
		return stint.Amended{}, nil
	}
	return f.amendOwn(ctx, c, a)
}

// amendOwn amends a local decision, here and in the store if that has charged it.
func (f *fallback) amendOwn(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	own := c
	own.Data().ID &= 1<<markShift - 1
	own.Data().Fallback = false
	done, err := f.local.own.Amend(ctx, own, a)
	if !done.Changed || err != nil {
		return done, err
	}
	settled := settlement{c, a, done.Charged}
	other := f.local.counterparts.settle(settled)
	f.local.amendSince(&c, &other.since, a, f.wall())
	switch held := anyPlace(c.Claims()); {
	case other.store.Data().ID != 0:
		part := partOf(&other.store, &c)
		stored, err := f.inner.Amend(ctx, part, a)
		if err != nil && a.Kind == stint.AmendSettle { // it is done locally already
			f.amendLater(part, a)
			return done, nil
		}
		return stored, err
	case held && other.late:
		if a.Kind == stint.AmendExtend {
			f.local.changePlaces(c.Claims(), 0, f.now())
		} else if a.Kind == stint.AmendRelease || a.Cost == 0 {
			f.local.changePlaces(c.Claims(), -1, f.now())
		}
	case held:
		if done.Changed, err = f.amendPlace(ctx, &c, a, other.held); !done.Changed || err != nil ||
			a.Kind != stint.AmendSettle {
			return done, err
		}
		f.settleOwed(settled)
	case !other.late && a.Kind == stint.AmendSettle: // else it is done when the answer comes
		f.settleOwed(settled)
	}
	return done, nil
}

// amendPlace amends a holder that was admitted without the store. A heartbeat that reaches the
// store makes it a holder there too.
func (f *fallback) amendPlace(ctx context.Context, c *stint.Charge, a stint.Amendment, known bool) (bool, error) {
	store := *c
	store.Data().Fallback, store.Data().RequestID, store.Data().IDLife = false, "", 0
	switch {
	case a.Kind == stint.AmendSettle && a.Cost > 0:
	case a.Kind == stint.AmendExtend:
		f.local.changePlaces(c.Claims(), 0, f.now())
		held, err := f.inner.Amend(ctx, store, a)
		if err != nil { // it is held here
			return true, nil
		}
		if held.Changed && !known {
			f.local.counterparts.add(c.Data().ID, counterpart{held: true})
			f.local.changePlaces(c.Claims(), -1, f.now())
		}
		return held.Changed, nil
	case known:
		f.amendLater(store, stint.Amendment{Kind: stint.AmendRelease})
	default:
		f.local.changePlaces(c.Claims(), -1, f.now())
	}
	return true, nil
}

// settleCharged settles what the store has charged, in the background.
func (f *fallback) settleCharged(c *stint.Charge, s settlement) {
	if part := partOf(c, &s.charge); part.Data().ID != 0 {
		f.amendLater(part, s.amendment)
	}
}

// settleOwed changes what is owed for a local charge to its true cost.
func (f *fallback) settleOwed(s settlement) {
	f.local.settleOwed(s, f.now(), f.wall())
	f.startCharging()
}

// giveBack gives units back to the store, in the background. It is repeated only if the store was
// surely not asked: else they might be given back twice.
func (f *fallback) giveBack(c stint.Command) {
	f.background.add(f, func(ctx context.Context) (again bool) {
		return errkind.Of(f.inner.Command(ctx, c)) == errkind.Refused
	})
}

// refund gives a charge back to the store, in the background.
func (f *fallback) refund(c stint.Charge) { f.amendLater(c, stint.Amendment{Kind: stint.AmendSettle}) }

// amendLater amends a charge of the store in the background. However often it is repeated, it
// applies once.
func (f *fallback) amendLater(c stint.Charge, a stint.Amendment) {
	f.background.add(f, func(ctx context.Context) (again bool) {
		_, err := f.inner.Amend(ctx, c, a)
		_, failed := errors.AsType[*stint.StoreError](err)
		return failed
	})
}

// Command implements [stint.Store]. It takes effect locally too, and there even if the store fails.
func (f *fallback) Command(ctx context.Context, c stint.Command) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Kind == stint.CommandReset {
		// What is being charged must not arrive after the reset.
		end := time.Now().Add(chargeTime)
		for _, s := range f.local.forget(&c, f.now()) {
			for s.left.Load() > 0 && time.Now().Before(end) && ctx.Err() == nil {
				sleep(ctx, time.Millisecond)
			}
		}
	}
	err := f.inner.Command(ctx, c)
	f.noteFailure(err, &stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits})
	f.local.commanded(&c, err == nil, f.now())
	return err
}
