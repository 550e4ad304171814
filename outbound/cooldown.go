package outbound

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/seldom"
)

const (
	// tellTime is how long one attempt to write a pause to the store may take.
	tellTime = time.Second
	// gather is how long after a pause was written one that prolongs it waits for others: an
	// API that is overrun says so in many answers.
	gather = 100 * time.Millisecond
	// firstRetry and lastRetry are how long after an attempt that failed the next one comes,
	// at first and in the long run.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second
	// logEvery is how often one message is logged: some APIs ask for a pause in every window.
	logEvery = time.Minute
)

// cooldown is what a process knows of an API's pauses. Instants are times since the start of the
// registry.
type cooldown struct {
	until atomic.Int64 // the end of the pause that the API imposed on this process; it only grows
	heard atomic.Int64 // the end of the one that the store told of last; nothing rests on it

	mu      sync.Mutex // of what follows, and of raising until
	telling bool       // a goroutine tells the store

	began, untellable seldom.Gate
}

// left is how long the pause that the API imposed on this process lasts, 0 if there is none.
func (k *cooldown) left(now time.Duration) time.Duration {
	return max(time.Duration(k.until.Load())-now, 0)
}

// hear notes a pause that another process wrote, for [Stats] alone: the store may
// be told to end it.
func (k *cooldown) hear(end time.Duration) { k.heard.Store(int64(end)) }

// resumed notes that the store knows of no pause.
func (k *cooldown) resumed() {
	if k.heard.Load() != 0 {
		k.heard.Store(0)
	}
}

// end is when the last pause that is known ends or ended.
func (k *cooldown) end() time.Duration {
	return time.Duration(max(k.until.Load(), k.heard.Load()))
}

// prolong raises the end of the pause. It reports whether that changed anything, and
// whether a pause began thereby.
func (k *cooldown) prolong(now, end time.Duration) (changed, begun bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := time.Duration(k.until.Load())
	if end <= was {
		return false, false
	}
	k.until.Store(int64(end))
	return true, was <= now
}

// teller reports whether the caller is to start telling: nobody does so far.
func (k *cooldown) teller() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.telling
	k.telling = true
	return !was
}

// untold returns the end of the pause if the store does not know of it, given the end that
// it was told. Otherwise there is nothing more to tell, and the caller has ceased to.
func (k *cooldown) untold(told, now time.Duration) (end time.Duration, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	end = time.Duration(k.until.Load())
	k.telling = end > told && end > now
	return end, k.telling
}

// CoolDown says that the API asked for a pause of d, which is held to at least a
// millisecond and at most the API's MaxCooldown. Calls of this process pause from now on, whatever becomes
// of the store. The other processes are told through the store, in the background, and if that
// fails again and again for as long as the pause lasts. A pause in force is never
// shortened; one that ends is forgotten by itself.
func (c *Client) CoolDown(d time.Duration) {
	e, err := c.registry.find(c.name)
	if err != nil {
		return // nobody calls it any more
	}
	d = e.api.clamp(d)
	now := c.registry.now()
	changed, begun := c.cooldown.prolong(now, now+d)
	if !changed {
		return
	}
	if begun {
		c.counts.cooldowns.Add(1)
		if unlogged, ok := c.cooldown.began.Take(1, logEvery); ok {
			c.registry.logger.Warn("stint: an API asked for a pause", "api", c.name, "pause", d, "unlogged", unlogged)
		}
		c.registry.observer.CooledDown(c.name, d)
	}
	if c.cooldown.teller() {
		c.registry.run(c.tell) // if not, the registry is closed and nobody tells
	}
}

// tell writes the pause to the store until it is known there or over. When the registry is
// closed there is one attempt more.
func (c *Client) tell() {
	r := c.registry
	told, retry := time.Duration(0), firstRetry
	for last := false; ; {
		end, ok := c.cooldown.untold(told, r.now())
		if !ok {
			return
		}
		err := c.write(end)
		r.observer.Told(c.name, err)
		if last {
			return
		}
		pause := gather
		if err == nil {
			told, retry = end, firstRetry
		} else {
			if unlogged, ok := c.cooldown.untellable.Take(1, logEvery); ok {
				r.logger.Warn("stint: cannot tell the other processes of a pause; trying on", "api", c.name, "cause", err, "unlogged", unlogged)
			}
			pause = retry - retry/5 + rand.N(2*retry/5)
			retry = min(2*retry, lastRetry)
		}
		last = !r.sleep(min(pause, end-r.now()))
	}
}

// write tells the store of a pause that ends at the given time.
func (c *Client) write(end time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	left := max(end-c.registry.now(), stint.MinWindow)
	left = (left + time.Microsecond - 1).Truncate(time.Microsecond)
	return c.registry.store.Command(ctx, stint.Command{Kind: stint.Ban, Subject: c.subject, For: left})
}

// sleep waits for d. It reports false if the registry was closed meanwhile.
func (r *Registry) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.done:
		return false
	}
}
