package stint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// heartbeatTime is how long a heartbeat waits for the store at most. One that comes later than that is void.
	heartbeatTime = time.Second
	// releaseTime is how long it is worth waiting for the store to take back a place, which expires by itself.
	releaseTime = time.Second
)

// ErrPlaceLost says that a place under a concurrency limit may belong to somebody else: no heartbeat got
// through in time, or the store was reset.
var ErrPlaceLost = errors.New("stint: the place is lost")

// Hold keeps the place that a request took under concurrency limits, with heartbeats, until release is called; that gives
// it back. The context's end does not matter: whoever holds a place says when it is free. Call it as soon as the request is
// answered: the time from the sending of the request until then, up to a tenth of that for which a place lasts, is allowed for.
//
// While the store is out of reach for longer than a place lasts, the place is lost: others may be admitted instead. The next
// heartbeat that gets through takes it back, above the limit's maximum if need be, so that nobody else is
// admitted until it is free. Of those who hold a place without having been told that it is lost, there are never more than the
// maximum, unless the store loses its state. [HoldContext] tells at once, release in the end.
//
// An error of release is that of giving the place back, or [ErrPlaceLost] if it was lost at any time, with what the last heartbeat
// failed with. It waits for a heartbeat under way: two seconds at most, both included.
//
// If the charge has no place, Hold returns nil.
func Hold(ctx context.Context, store Store, c Charge) (release func() error) {
	window := c.place()
	if window == 0 || c.ID == 0 {
		return nil
	}
	return hold(ctx, store, c, window, nil)
}

// HoldContext is Hold, and returns a context that also ends when the place is lost, with the cause [ErrPlaceLost], or
// released. By the holder's own clock that is when a place has lasted since the sending of the last heartbeat that was answered. If
// the charge has no place, it returns the context as it is, and nil.
func HoldContext(ctx context.Context, store Store, c Charge) (held context.Context, release func() error) {
	window := c.place()
	if window == 0 || c.ID == 0 {
		return ctx, nil
	}
	held, end := context.WithCancelCause(ctx)
	give := hold(ctx, store, c, window, end)
	return held, func() error {
		end(nil)
		return give()
	}
}

// holder keeps a place.
type holder struct {
	store  Store
	charge Charge
	window time.Duration

	expires *time.Timer // tells that the place is lost
	lose    context.CancelCauseFunc
	told    sync.Once
	lost    bool // once told

	failure error     // of the last heartbeat
	until   time.Time // when one that was not answered is void
}

// hold does what Hold does for a charge that has a place. It is a function of its own so that others cost nothing.
func hold(ctx context.Context, store Store, c Charge, window time.Duration, lose context.CancelCauseFunc) (release func() error) {
	ctx = context.WithoutCancel(ctx)
	h := &holder{store: store, charge: c, window: window, lose: lose}
	h.expires = time.AfterFunc(window-window/10, h.tell)
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
			if !h.beat(ctx) {
				return
			}
		}
	})
	return func() error {
		close(stop)
		work.Wait()
		h.expires.Stop()
		time.Sleep(time.Until(h.until))
		return h.release(ctx)
	}
}

// tell tells that the place is lost, once.
func (h *holder) tell() {
	h.told.Do(func() {
		h.lost = true
		if h.lose != nil {
			h.lose(ErrPlaceLost)
		}
	})
}

// beat sends one heartbeat. It reports false if there is no use in another one.
func (h *holder) beat(ctx context.Context) bool {
	sent := time.Now()
	ctx, cancel := context.WithDeadline(ctx, sent.Add(min(max(h.window/3, time.Millisecond), heartbeatTime)))
	defer cancel()
	held, err := h.store.Amend(ctx, h.charge, Amendment{Kind: Extend})
	h.failure = err
	switch {
	case err == nil && held:
		h.expires.Reset(time.Until(sent.Add(h.window)))
	case err == nil:
		h.tell()
		return false
	case !notRun(err):
		h.until, _ = ctx.Deadline()
	}
	return true
}

// notRun reports whether a failed call certainly did nothing.
func notRun(err error) bool {
	switch KindOf(err) {
	case KindRefused, KindBusy, KindFull, KindReadOnly, KindAuth:
		return true
	}
	return false
}

func (h *holder) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	held, err := h.store.Amend(ctx, h.charge, Amendment{Kind: Release})
	if err == nil && !held {
		err = h.failure
	}
	h.told.Do(func() {}) // from now on it is certain
	switch {
	case !h.lost:
		return err
	case err == nil:
		return ErrPlaceLost
	}
	return fmt.Errorf("%w: %w", ErrPlaceLost, err)
}

// place returns the shortest time that a place of the charge lasts without a heartbeat; 0 if it has none.
func (c *Charge) place() time.Duration {
	shortest := time.Duration(0)
	for i := range 1 + len(c.And()) {
		claim := c.ClaimAt(i)
		for k := range claim.Limits {
			if l := &claim.Limits[k]; l.Algorithm == Concurrency && claim.Cost > 0 && (shortest == 0 || l.Window < shortest) {
				shortest = l.Window
			}
		}
	}
	return shortest
}
