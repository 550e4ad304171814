package outbound

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// ErrCoolingDown is in the error chain of a call that is not made because the API asked this or
// another process for a pause. The chain also contains a [*stint.DeniedError], whose RetryAfter is
// the time until the pause ends.
var ErrCoolingDown = errors.New("outbound: the API asked for a pause")

// Client limits the calls to one API. It is safe for concurrent use. It stays valid when the
// registry is updated.
type Client struct {
	registry *Registry
	name     string
	subject  string
	cooldown cooldown

	mu      sync.Mutex
	counted Stats // Name, Limits and CoolingUntil are not set
	// held maps the charge ID of each call with held estimates to the function that ends its
	// heartbeats.
	held map[uint64]context.CancelFunc
}

// Retries returns the API's [API.Retries], or 0 if the API is no longer registered.
func (c *Client) Retries() int {
	e, err := c.registry.find(c.name)
	if err != nil {
		return 0
	}
	return e.api.Retries
}

// Wait returns when one call may be made: at once if there is room and no pause, otherwise when its
// turn comes. The decision reports the units that remain. Its RetryAfter is zero, because the wait
// is over.
//
// Wait fails at once, with a [*stint.DeniedError], if the API is set to FailFast and the call would
// have to wait, or if the wait would be longer than MaxWait or the context allows. It also fails if
// 1,000 calls are already waiting. If the context's deadline leaves too little time, the error
// chain also contains context.DeadlineExceeded. If the context ends before the call's turn comes,
// its booking is given back. The API's Failure determines what happens if the store fails.
func (c *Client) Wait(ctx context.Context) (stint.Decision, error) { return c.wait(ctx, nil) }

func (c *Client) wait(ctx context.Context, costs stint.Costs) (stint.Decision, error) {
	c.count(func(s *Stats) { s.Waiting++ })
	defer c.count(func(s *Stats) { s.Waiting-- })
	start := time.Now()
	d, slept, err := c.admit(ctx, start, costs)
	var wait time.Duration
	if slept {
		wait = time.Since(start)
	}
	c.count(func(s *Stats) { s.called(wait, err) })
	if o := c.registry.observer; o != nil {
		o.Observe(ctx, &Call{API: c.name, Wait: wait, Err: err})
	}
	return d, err
}

// Peek returns the decision that a call would get now, without waiting. It charges nothing. During
// a pause, the decision is not Allowed.
func (c *Client) Peek(ctx context.Context) (stint.Decision, error) {
	e, err := c.registry.find(c.name)
	if err != nil {
		return stint.Decision{}, err
	}
	d, err := e.limiter.Peek(ctx, c.subject)
	if left := c.cooldown.left(c.registry.now()); err == nil && left > 0 {
		d.Allowed, d.Banned = false, true
		d.RetryAfter = max(d.RetryAfter, left)
	}
	return d, err
}

// admit waits until a call may be made, and returns the decision. slept reports whether the call
// had to wait, even if it was then not made.
func (c *Client) admit(ctx context.Context, start time.Time, costs stint.Costs) (
	d stint.Decision, slept bool, _ error) {
	for {
		// Look the API up again after each pause, because it may have been updated.
		e, err := c.registry.find(c.name)
		if err == nil {
			err = ctx.Err() // from here on, the waits check ctx themselves
		}
		if err != nil {
			return stint.Decision{}, slept, err
		}
		pause, booked := c.cooldown.left(c.registry.now()), false
		if pause == 0 {
			d, err = e.book(context.WithValue(ctx, bookedKey{}, &booked), start, costs)
			denied, ok := errors.AsType[*stint.DeniedError](err)
			if ok && denied.Banned { // the API asked another process for a pause
				pause = max(denied.RetryAfter, time.Microsecond)
				c.cooldown.see(c.registry.now() + pause)
			} else if err != nil {
				return d, slept || brokenOff(err), err
			}
		}
		if pause > 0 {
			if err := e.sleep(ctx, start, pause); err != nil {
				return stint.Decision{}, slept || brokenOff(err), err
			}
			slept = true
			continue
		}
		slept = slept || booked
		if !c.overtaken(ctx, e, booked) {
			c.cooldown.see(0)
			return d, slept, nil
		}
		e.giveBack(ctx, d)
	}
}

// book takes a turn for a call that began at start. Unless the API is set to FailFast, book waits
// until the turn comes.
func (e *entry) book(ctx context.Context, start time.Time, costs stint.Costs) (stint.Decision, error) {
	r := stint.Request{Claims: []stint.Claim{{Subject: e.client.subject, Cost: 1, Costs: costs}}}
	if costs != nil {
		r.Hold = holdTime
	}
	if e.api.FailFast {
		d, err := e.limiter.Take(ctx, r)
		if err == nil {
			err = d.Err()
		}
		return d, err
	}
	if e.api.MaxWait > 0 {
		r.MaxWait = max(e.api.MaxWait-time.Since(start), time.Microsecond)
	}
	return e.limiter.WaitFor(ctx, r)
}

// brokenOff reports whether a wait failed only because its context ended, and not because the call
// was refused or the store failed.
func brokenOff(err error) bool { return err == context.Canceled || err == context.DeadlineExceeded }

// sleep waits for the end of a pause. If the call may not wait that long, sleep fails at once.
func (e *entry) sleep(ctx context.Context, start time.Time, pause time.Duration) error {
	denied := fmt.Errorf("%w: %w", ErrCoolingDown, &stint.DeniedError{Key: e.client.subject, RetryAfter: pause})
	if e.api.FailFast || e.api.MaxWait > 0 && time.Since(start)+pause > e.api.MaxWait {
		return denied
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < pause {
		return fmt.Errorf("%w: %w", denied, context.DeadlineExceeded)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// overtaken reports whether a pause has begun since the call asked for its turn. If booked is true,
// the call had to wait for the turn. In that case, overtaken also asks the store, because another
// process may have been asked for a pause in the meantime.
func (c *Client) overtaken(ctx context.Context, e *entry, booked bool) bool {
	if c.cooldown.left(c.registry.now()) > 0 {
		return true
	}
	if !booked {
		return false
	}
	d, err := e.limiter.Peek(ctx, c.subject)
	return err == nil && d.Banned // if the store does not answer, use the booking
}

// giveBackTime is the timeout for giving a booking back to the store. The booking also expires by
// itself.
const giveBackTime = time.Second

func (e *entry) giveBack(ctx context.Context, d stint.Decision) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	_, _ = e.limiter.Refund(ctx, d)
}

// noting is a store that records in the context whether a call has to wait for its turn. The
// decision after the wait does not show this, because it describes only the admission.
type noting struct{ stint.Store }

type bookedKey struct{}

// Announcements implements [driver.Announcer], so that waiting calls move up when other calls give
// up.
func (n noting) Announcements(ctx context.Context, f func(subject string, commanded bool)) error {
	if a, ok := n.Store.(driver.Announcer); ok {
		return a.Announcements(ctx, f)
	}
	return errors.ErrUnsupported
}

func (n noting) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	d, err := n.Store.Take(ctx, r)
	if err == nil && (d.Allowed && d.RetryAfter > 0 || !d.Allowed && r.Hold > 0) {
		if booked, ok := ctx.Value(bookedKey{}).(*bool); ok {
			*booked = true
		}
	}
	return d, err
}

// Call is the event that reports a call to [Client.Wait] or [Client.WaitFor]. API names come from
// the configuration, never from requests, so they are suitable as metric labels.
type Call struct {
	API string
	// Wait is the time that the call waited, even if it was then not made; zero if it did not wait.
	Wait time.Duration
	// Err is the reason why the call may not be made; nil if it may be made.
	Err error
}

// Event implements [stint.Event].
func (*Call) Event() {}

// Cooldown is the event that reports a pause that the API imposed on this process. If the API
// prolongs a pause that is in force, there is no second event.
type Cooldown struct {
	API string
	For time.Duration
}

// Event implements [stint.Event].
func (*Cooldown) Event() {}
