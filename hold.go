package stint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// heartbeatTime is the longest time that a heartbeat waits for the store. A heartbeat that
	// arrives later is void.
	heartbeatTime = time.Second
	// releaseTime is the maximum time that a release waits for the store. If the release fails, the
	// place expires by itself.
	releaseTime = time.Second
	// beatTime is the maximum time that a release waits for a heartbeat that is under way, if the
	// store's AmendsInOrder method returns true; see package driver.
	beatTime = time.Millisecond
)

// ErrPlaceLost reports that a place under a concurrency limit may belong to another holder: no
// heartbeat got through in time, or the subject was reset.
var ErrPlaceLost = errors.New("stint: the place is lost")

// Hold sends heartbeats until release is called. They keep the place that an allowed request took
// under concurrency limits, and extend the hold of a request with a [Request.Hold]. release gives
// the place back:
//
//	d, err := lim.Allow(ctx, "report:7")
//	...
//	ctx, release := lim.Hold(ctx, d)
//	defer release()
//
// The returned context ends when ctx ends, when release is called, or when the place is lost. If
// the place is lost, the cause is [ErrPlaceLost]. The place is not released when ctx ends. Call
// Hold as soon as the request is answered: at most a tenth of the time that a place lasts may pass
// between the request and the call.
//
// If the store is out of reach for longer than a place lasts, the place is lost: other holders may
// be admitted instead. The next heartbeat that gets through takes the place back, above the limit's
// maximum if necessary. After that, no other holder is admitted until the number of holders is
// below the maximum. At any time, the number of holders whose context has not ended is at most the
// maximum, unless the store loses its state.
//
// release returns an error if the place could not be given back. If the place was ever lost, the
// error is [ErrPlaceLost], joined with the error of the release or of the last heartbeat, if there
// is one. With a store from package resilience, release waits for at most the time budget: after
// that, the place is given back in the background. With any other store, release also waits for a
// heartbeat that is under way: at most two seconds in all.
//
// release does not end the hold of a request: settle the charge, before or after release. If the
// hold is not settled, it expires, because release ends the heartbeats. A hold that expires does
// not end the context.
//
// If the decision has neither a place nor a hold, Hold returns ctx unchanged, and a release that
// does nothing. Examples are a denial, a peek, a request without a Hold whose limits are not
// concurrency limits, and a decision of [FailAllow] while the store is down. A repeat keeps no
// place, only the hold.
func (l *Limiter) Hold(ctx context.Context, d Decision) (held context.Context, release func() error) {
	window, life := d.Charge.place(), d.Charge.data.Hold
	if d.Repeat {
		window = 0
	}
	switch {
	case d.Charge.IsZero() || window == 0 && life == 0:
		return ctx, releaseNothing
	case window == 0:
		return hold(ctx, l.store, d.Charge, life, false)
	case life > 0:
		window = min(window, life)
	}
	return hold(ctx, l.store, d.Charge, window, true)
}

func releaseNothing() error { return nil }

// holder sends heartbeats to keep a place, a hold or both.
type holder struct {
	store  Store
	charge Charge
	window time.Duration
	place  bool // whether there is a place, not only a hold

	expires *time.Timer             // calls h.loses when the place may have expired
	lose    context.CancelCauseFunc // cancels the context that Hold returned
	lost    atomic.Bool

	failure error     // the error of the last heartbeat; nil if it succeeded
	until   time.Time // time at which the last unanswered heartbeat becomes void
}

// hold implements Hold for a charge that has a place or a hold. It is a separate function so that
// Hold allocates nothing for other charges.
func hold(ctx context.Context, store Store, c Charge, window time.Duration, place bool) (
	context.Context, func() error) {
	held, end := context.WithCancelCause(ctx)
	ctx = context.WithoutCancel(ctx)
	beats, stopBeat := context.WithCancel(ctx)
	inOrder, ordered := store.(interface{ AmendsInOrder() bool }) // see Order in package driver
	ordered = ordered && inOrder.AmendsInOrder()
	h := &holder{store: store, charge: c, window: window, place: place, lose: end}
	h.expires = time.AfterFunc(window-window/10, h.loses)
	stop := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		tick := time.NewTicker(window / 3)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			if !h.beat(beats) {
				return
			}
		}
	})
	return held, func() error {
		end(nil)
		close(stop)
		if ordered { // a heartbeat that is under way is usually answered within beatTime
			defer time.AfterFunc(beatTime, stopBeat).Stop()
		}
		work.Wait()
		stopBeat()
		h.expires.Stop()
		if !place {
			return nil
		}
		if !ordered {
			time.Sleep(time.Until(h.until))
		}
		return h.release(ctx)
	}
}

// loses records that the place is lost, and cancels the context that Hold returned. It does nothing
// for a hold without a place, because a charge can still be settled after its hold has expired.
func (h *holder) loses() {
	if h.place {
		h.lost.Store(true)
		h.lose(ErrPlaceLost)
	}
}

// beat sends one heartbeat. It reports whether the next one can be useful.
func (h *holder) beat(ctx context.Context) bool {
	sent := time.Now()
	ctx, cancel := context.WithDeadline(ctx, sent.Add(min(max(h.window/3, time.Millisecond), heartbeatTime)))
	defer cancel()
	held, err := h.store.Amend(ctx, h.charge, Amendment{Kind: AmendExtend})
	h.failure = err
	switch {
	case err == nil && held.Changed:
		h.expires.Reset(time.Until(sent.Add(h.window)))
	case err == nil:
		h.loses()
		return !h.place // heartbeats also extend the time in which an expired hold can be settled
	case !notRun(err):
		h.until, _ = ctx.Deadline()
	}
	return true
}

// notRun reports whether a failed call is certain to have done nothing.
func notRun(err error) bool {
	failure, ok := errors.AsType[*StoreError](err)
	return ok && failure.Kind.NothingDone()
}

func (h *holder) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	held, err := h.store.Amend(ctx, h.charge, Amendment{Kind: AmendRelease})
	if err == nil && !held.Changed {
		err = h.failure
	}
	switch {
	case !h.lost.Load():
		return err
	case err == nil:
		return ErrPlaceLost
	}
	return fmt.Errorf("%w: %w", ErrPlaceLost, err)
}

// place returns the shortest time that a place of the charge lasts without a heartbeat, or 0 if the
// charge has no place.
func (c *Charge) place() time.Duration {
	shortest, claims := time.Duration(0), c.Claims()
	for i := range claims {
		claim := &claims[i]
		for k := range claim.Limits {
			if l := &claim.Limits[k]; l.Algorithm == AlgorithmConcurrency && claim.CostOf(l) > 0 &&
				(shortest == 0 || l.Window < shortest) {
				shortest = l.Window
			}
		}
	}
	return shortest
}
