package stint

import (
	"context"
	"fmt"
	"time"
)

// Wait charges one unit and returns when it may be used: at once if there is room, otherwise when
// its booking is due. Bookings are made in the order of the calls, across all processes.
//
// A Wait usually makes one call to the store. If it books under a sliding limit with a window of at
// least 40 milliseconds and less than four seconds, it makes two or three, because it confirms its
// booking when the booking is due. Whenever other callers give units back, it asks for an earlier
// time: once, or twice if the first call finds none.
//
// Wait fails at once, with a [*DeniedError], if the wait would be longer than the context allows,
// or if waiting would not help, for example because the cost exceeds the capacity of the limit. If
// the context ends before the booking is due, the booking is given back, and later bookings move
// up. The decision has the usages at the time of admission.
func (l *Limiter) Wait(ctx context.Context, subject string) (Decision, error) {
	return l.WaitFor(ctx, l.request(subject, 1))
}

// WaitFor is like Wait, but for any request, whatever its Mode. It waits no longer than the
// request's MaxWait, if that is not zero. A request with a Hold books nothing: WaitFor asks again
// after the RetryAfter of each denial, and earlier if the store announces that there may be room.
func (l *Limiter) WaitFor(ctx context.Context, r Request) (Decision, error) {
	if r.Hold > 0 {
		return l.waitToHold(ctx, r)
	}
	r.Mode = ModeReserve
	if err := l.prepare(&r); err != nil {
		return Decision{}, err
	}
	r.terms.Tentative = r.tentative()
	longest := r.MaxWait
	for start := time.Now(); ; {
		asked := time.Now()
		d, err := l.reserve(ctx, r)
		if err != nil || d.RetryAfter == 0 {
			return d, err
		}
		switch l.await(ctx, r, &d, asked) {
		case useIt:
			d.admit()
			return d, nil
		case giveItBack:
			if !d.Repeat { // a repeat shares its booking with the original request, which still waits for it
				l.unbook(ctx, d.Charge)
			}
		case leaveIt:
		}
		if err := ctx.Err(); err != nil {
			return Decision{}, err
		}
		// Book again, within the rest of the maximum wait.
		if longest > 0 {
			r.MaxWait = max(longest-time.Since(start), time.Microsecond)
		}
	}
}

// waitToHold asks until the request is allowed. It stops if waiting would take too long or would
// not help.
func (l *Limiter) waitToHold(ctx context.Context, r Request) (Decision, error) {
	longest := MaxWindow * MaxBurst
	if r.MaxWait > 0 {
		longest = r.MaxWait
	}
	r.Mode, r.MaxWait = ModeTake, 0
	for start := time.Now(); ; {
		asked := time.Now()
		d, err := l.Take(ctx, r)
		if err != nil || d.Allowed {
			return d, err
		}
		deadline, limited := ctx.Deadline()
		hurried := limited && asked.Add(d.RetryAfter).After(deadline)
		if d.RetryAfter == Never || d.Unavailable || asked.Add(d.RetryAfter).Sub(start) > longest {
			return d, d.Err()
		} else if hurried && !d.Banned {
			return d, fmt.Errorf("%w: %w", d.Err(), context.DeadlineExceeded)
		}
		if err := l.awaitRoom(ctx, r.Claims, &d, asked); err != nil {
			return Decision{}, err
		}
	}
}

// awaitRoom sleeps for the RetryAfter of the denial d, or less if the caller should ask again
// earlier.
func (l *Limiter) awaitRoom(ctx context.Context, claims []Claim, d *Decision, asked time.Time) error {
	w := l.waiters.join(claims, d, asked)
	defer l.waiters.leave(w)
	for left := d.RetryAfter; left > 0; {
		took, err := l.sleep(ctx, l.waiters.pause(w, left), w.wake())
		if err != nil {
			return err
		}
		if left -= took; l.waiters.told(w) {
			return nil
		}
	}
	return nil
}

// outcome determines what to do with a booking when its waiter stops waiting.
type outcome uint8

const (
	useIt outcome = iota
	// giveItBack means that the waiter was canceled or denied, or that it woke too late to use the
	// booking, for instance because its machine slept.
	giveItBack
	// leaveIt means that the store did not answer when asked to move the booking. The booking's
	// instant is unknown, and its previous instant may now belong to another booking. A store that
	// learns the instant later gives the booking back; otherwise the booking expires.
	leaveIt
)

// If a booking is due within tooNear, its waiter does not ask to move up. moveUpTime is the longest
// time that a waiter waits for the answer when it asks to move up.
const (
	tooNear    = 100 * time.Millisecond
	moveUpTime = time.Second
)

// await sleeps until the booking of d is due, and returns what to do with it. When the store
// announces that there may be room earlier, await asks for an earlier booking. It also asks when a
// tentative booking is due. It stores each answer in d.
//
// The answer may come late. So await compares the booking's instant in the new answer with its
// instant in the previous answer, to learn by how much the booking has moved.
//
// asked is the time at which the booking was requested. The booking may be due earlier than
// d.RetryAfter suggests, by up to the time that the answer took. await counts that time as
// lateness, but only up to half of the grace: otherwise every booking in a slow store would be
// late, and its caller would book again and again.
func (l *Limiter) await(ctx context.Context, r Request, d *Decision, asked time.Time) outcome {
	answered := time.Since(asked)
	w := l.waiters.join(r.Claims, d, asked)
	defer l.waiters.leave(w)
	left, failure := d.RetryAfter, r.Failure
	for {
		took, err := l.sleep(ctx, l.waiters.pause(w, left), w.wake())
		if err != nil {
			return giveItBack
		}
		left -= took
		told := l.waiters.told(w)
		switch {
		case left > 0 && (d.Repeat || left <= tooNear || !told): // a repeat cannot move the booking
			continue
		case left > 0: // there may be room earlier: ask, and leave time for the answer
			r.Failure = &FailurePolicy{Mode: FailError, Budget: min(left/2, moveUpTime)}
		case d.Repeat || !r.terms.Tentative:
			if grace := r.grace(); min(answered, grace/2)-left > grace {
				return giveItBack
			}
			return useIt
		default: // a tentative booking is due: confirm it before using it
			r.Failure = failure
		}
		if ctx.Err() != nil {
			return giveItBack
		}
		booked := d.Charge.data
		r.terms.Booked = &booked
		start := time.Now()
		moved, err := l.store.Take(ctx, r)
		took = time.Since(start)
		switch {
		case err == nil && moved.Allowed:
			stands := left <= 0 && moved.RetryAfter >= d.RetryAfter && moved.Charge.data.At == d.Charge.data.At
			l.waiters.answered(w, moved.RetryAfter < left-took)
			left -= took + time.Duration(d.Charge.data.At-moved.Charge.data.At)*time.Microsecond
			if left = max(left, moved.RetryAfter-took); moved.Degraded || left > moved.RetryAfter {
				left = moved.RetryAfter
			}
			*d, answered = moved, took
			if moved.RetryAfter == 0 || stands { // in tests, a store's clock may stand still
				return useIt
			}
		case err == nil && !moved.Degraded: // denied, for example because the subject was banned
			return giveItBack
		case err == nil || !notRun(err):
			return leaveIt
		case left <= 0: // without an answer, the booking may not be used
			return giveItBack
		default:
			left -= took
		}
	}
}

// tentative reports whether the request books tentatively, so that a waiter asks again before it
// uses its booking. It does if the grace of a booking is more than a two-hundredth, and at most a
// twentieth, of the shortest window of its sliding limits. With a longer grace, asking would lose
// more than it gains.
func (r *Request) tentative() bool {
	shortest := MaxWindow
	for i := range r.Claims {
		for _, limit := range r.Claims[i].Limits {
			if limit.Algorithm == AlgorithmSliding && r.Claims[i].CostOf(&limit) > 0 {
				shortest = min(shortest, limit.Window)
			}
		}
	}
	grace := r.grace()
	return shortest >= 20*grace && shortest < 200*grace
}

// admit turns the decision on a booking into the decision that its waiter gets when the booking is
// due: there is nothing left to wait for.
func (d *Decision) admit() {
	d.RetryAfter = 0
	booked := *d // MakeUsages does not change the usages of booked
	usages := d.MakeUsages(len(booked.Usages()))
	for i, u := range booked.Usages() {
		usages[i] = Usage{Used: u.Used, ResetAfter: u.ResetAfter}
	}
}

// reserve books a time within the request's MaxWait and the context's deadline.
func (l *Limiter) reserve(ctx context.Context, r Request) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	hurried := false
	if deadline, ok := ctx.Deadline(); ok {
		left := max(time.Until(deadline), time.Microsecond)
		if r.MaxWait == 0 || left < r.MaxWait {
			r.MaxWait, hurried = min(left, MaxWindow*MaxBurst), true
		}
	}
	d, err := l.store.Take(ctx, r)
	l.log.decided(ctx, &r.Claims[0], r.Mode, &d, err)
	if err == nil && !d.Allowed {
		err = d.Err()
		if hurried && d.RetryAfter > r.MaxWait && d.RetryAfter != Never && !d.Banned && !d.Unavailable {
			err = fmt.Errorf("%w: %w", err, context.DeadlineExceeded)
		}
	}
	return d, err
}

// sleep waits for d, or less if it is woken, and returns how long it took. That is the longer of
// the times on the wall clock and on the monotonic clock, which may stop while the machine is
// suspended.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) (took time.Duration, err error) {
	start := time.Now()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	now := time.Now()
	return max(now.Sub(start), now.Round(0).Sub(start.Round(0))), nil
}

// unbookTime is the maximum time to wait for the store to take back the booking of a canceled
// caller. A booking that is not given back expires by itself.
const unbookTime = time.Second

func (l *Limiter) unbook(ctx context.Context, c Charge) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unbookTime)
	defer cancel()
	_, _ = l.store.Amend(ctx, c, Amendment{Kind: AmendSettle})
}
