package stint

import (
	"context"
	"sync"
	"time"
)

// releaseTime is how long it is worth waiting for the store to take back a place, which expires by itself.
const releaseTime = time.Second

// Hold keeps the place that a request took under concurrency limits, with heartbeats, until release is called; that gives
// it back. The context's end does not matter: whoever holds a place says when it is free. An error is that of giving it
// back, or of a place that was lost before: then the last heartbeat's, if that failed.
//
// If the charge has no place, Hold returns nil.
func Hold(ctx context.Context, store Store, c Charge) (release func() error) {
	window := c.place()
	if window == 0 || c.ID == 0 {
		return nil
	}
	return hold(ctx, store, c, window)
}

// hold does so for a charge that has a place. It is a function of its own so that others cost nothing.
func hold(ctx context.Context, store Store, c Charge, window time.Duration) (release func() error) {
	ctx = context.WithoutCancel(ctx)
	beating, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	var failure error
	work.Go(func() {
		tick := time.NewTicker(window / 3)
		defer tick.Stop()
		for {
			select {
			case <-beating.Done():
				return
			case <-tick.C:
			}
			within, cancel := context.WithTimeout(beating, max(window/3, time.Millisecond))
			if _, err := store.Amend(within, c, Amendment{Kind: Extend}); beating.Err() == nil {
				failure = err
			}
			cancel()
		}
	})
	return func() error {
		stop()
		work.Wait()
		within, cancel := context.WithTimeout(ctx, releaseTime)
		defer cancel()
		held, err := store.Amend(within, c, Amendment{Kind: Release})
		if err == nil && !held {
			err = failure
		}
		return err
	}
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
