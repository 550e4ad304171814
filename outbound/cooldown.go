package outbound

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/logsample"
)

const (
	// writeTime is the timeout of one attempt to write a pause to the store.
	writeTime = time.Second
	// gather is the minimum time between two writes of a pause, because an overloaded API asks for
	// a pause in many answers.
	gather = 100 * time.Millisecond
	// firstRetry and lastRetry are the first and the longest delay between a failed attempt and the
	// next one.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second
	// logEvery is the minimum time between two log records with the same message, because some APIs
	// ask for a pause in every window.
	logEvery = time.Minute
)

// cooldown holds what this process knows about the pauses of an API. Times are measured from the
// creation of the registry.
type cooldown struct {
	until atomic.Int64 // the end of the pause that the API imposed on this process; it only grows
	seen  atomic.Int64 // the end of the pause that the store last reported; for statistics only

	mu      sync.Mutex // guards the fields below, and increases of until
	writing bool       // whether a goroutine writes pauses to the store

	began, unwritten logsample.Sampler
}

// left returns the remaining time of the pause that the API imposed on this process, or 0 if there
// is none.
func (k *cooldown) left(now time.Duration) time.Duration {
	return max(time.Duration(k.until.Load())-now, 0)
}

// see records the end of a pause that another process wrote, or 0 if there is no pause in the
// store. Only [Client.stats] uses the record, because the pause in the store may be ended early.
func (k *cooldown) see(end time.Duration) {
	if k.seen.Load() != int64(end) { // false for most calls, because there is rarely a pause
		k.seen.Store(int64(end))
	}
}

func (k *cooldown) end() time.Duration {
	return time.Duration(max(k.until.Load(), k.seen.Load()))
}

// prolong sets the end of the pause to the given time, unless the pause already ends then or later.
// It reports whether the end changed, and whether that began a new pause because the previous one
// was over.
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

// startWriting reports whether the caller must start the goroutine that writes pauses, because none
// is running.
func (k *cooldown) startWriting() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.writing
	k.writing = true
	return !was
}

// toWrite returns the end of the pause if it is not yet in the store, given the end that was last
// written. If there is nothing to write, it returns false, and the writing goroutine ends.
func (k *cooldown) toWrite(written, now time.Duration) (end time.Duration, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	end = time.Duration(k.until.Load())
	k.writing = end > written && end > now
	return end, k.writing
}

// Cooldown pauses calls to the API because it asked for a pause of d. The pause is at least a
// millisecond and at most the API's MaxCooldown. Calls in this process pause from now on, even if
// the store fails. Other processes get the pause through the store, in the background; failed
// writes are repeated while the pause lasts. A pause in force is never shortened. Cooldown returns
// the time for which calls in this process now pause, or 0 if the API is no longer registered.
func (c *Client) Cooldown(d time.Duration) time.Duration {
	e, err := c.registry.find(c.name)
	if err != nil {
		return 0
	}
	d = e.api.clamp(d)
	now := c.registry.now()
	changed, begun := c.cooldown.prolong(now, now+d)
	if !changed {
		return c.cooldown.left(now)
	}
	if begun {
		c.count(func(s *Stats) { s.Cooldowns++ })
		if unlogged, ok := c.cooldown.began.Allow(1, logEvery); ok {
			c.registry.logger.Warn("stint: an API asked for a pause", "api", c.name, "pause", d, "unlogged", unlogged)
		}
		if o := c.registry.observer; o != nil {
			o.Observe(context.Background(), &Cooldown{API: c.name, For: d})
		}
	}
	if c.cooldown.startWriting() {
		c.registry.run(c.writePauses)
	}
	return d
}

// writePauses writes the pause to the store, and repeats failed attempts until the pause is over.
// If the registry is closed in the meantime, writePauses makes at most one more attempt.
func (c *Client) writePauses() {
	r := c.registry
	written, retry := time.Duration(0), firstRetry
	for last := false; ; {
		end, ok := c.cooldown.toWrite(written, r.now())
		if !ok {
			return
		}
		err := c.write(end)
		if last {
			return
		}
		pause := gather
		if err == nil {
			written, retry = end, firstRetry
		} else {
			if unlogged, ok := c.cooldown.unwritten.Allow(1, logEvery); ok {
				r.logger.Warn("stint: cannot write a pause for other processes to the store; retrying", "api", c.name, "cause", err, "unlogged", unlogged)
			}
			pause = retry - retry/5 + rand.N(2*retry/5)
			retry = min(2*retry, lastRetry)
		}
		last = !r.sleep(min(pause, end-r.now()))
	}
}

// write writes a pause that ends at the given time to the store, as a ban of the API's subject. A
// ban has the properties that a pause needs:
//   - It denies all calls until it ends.
//   - Of two bans, the one that ends later applies.
//   - Other processes learn of it from the call to the store that decides their next request.
//
// So stores need no separate command for pauses.
func (c *Client) write(end time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	left := max(end-c.registry.now(), stint.MinWindow)
	left = (left + time.Microsecond - 1).Truncate(time.Microsecond)
	return c.registry.store.Command(ctx, stint.Command{Kind: stint.CommandBan, Subject: c.subject, For: left})
}

// sleep waits for d. It reports false if the registry was closed in the meantime.
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
