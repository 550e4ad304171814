package redisstore

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/stint-limiter/stint/internal/errkind"
)

// serverClock tracks how far the server's clock is ahead of ours. With this difference, a call can
// carry its not-after, which is its deadline in the server's time. So a server that was stopped and
// resumes does not charge requests whose callers have long given up.
//
// The server reads its clock before it sends the reply. So the difference computed from a reply is
// too small by the time that the reply took to arrive. A not-after computed with this difference is
// early by that time, which leaves time for the reply to arrive. The fastest reply gives the
// largest and most accurate difference, so serverClock uses the largest difference from the current
// and the previous second. All nodes of a Cluster share one difference, so a not-after can be late
// by as much as their clocks differ.
type serverClock struct {
	fixed func() int64 // returns the time that a test has set, or 0
	start time.Time    // origin of our clock, which is monotonic

	ahead atomic.Int64 // in microseconds; 0 if unknown

	mu         sync.Mutex
	this, last int64 // the largest differences in the current second and in the previous one
	second     int64
}

func newServerClock() *serverClock {
	return &serverClock{fixed: func() int64 { return 0 }, start: time.Now(), second: noSecond}
}

// noSecond means that there is no earlier difference. Seconds count from 0, so no second directly
// follows noSecond.
const noSecond = -2

// micros returns t on our clock, in microseconds since start.
func (c *serverClock) micros(t time.Time) int64 { return t.Sub(c.start).Microseconds() }

// notAfter returns a caller's deadline in the server's time, or 0 if there is no deadline, if the
// server's time is not known, or if a test has set the clock.
func (c *serverClock) notAfter(deadline time.Time) int64 {
	ahead := c.ahead.Load()
	if c.fixed() != 0 || ahead == 0 || deadline.IsZero() {
		return 0
	}
	return c.micros(deadline) + ahead
}

// now returns the server's time in microseconds. If a test has set a time, it returns that. If the
// server's time is not known, it returns ours.
func (c *serverClock) now() int64 {
	if fixed := c.fixed(); fixed != 0 {
		return fixed
	}
	now := time.Now()
	if ahead := c.ahead.Load(); ahead != 0 {
		return c.micros(now) + ahead
	}
	return now.UnixMicro()
}

// learn takes the server's time from a reply that has just arrived. If late is set, the server
// refused a request as too late, perhaps because its clock had been set, so learn discards the
// earlier differences.
func (c *serverClock) learn(server int64, late bool) {
	if c.fixed() != 0 {
		return
	}
	at := c.micros(time.Now())
	ahead := server - at
	c.mu.Lock()
	defer c.mu.Unlock()
	if late {
		c.second = noSecond
	}
	if second := at / 1e6; second != c.second {
		if second == c.second+1 {
			c.last = c.this
		} else {
			c.last = ahead
		}
		c.second, c.this = second, ahead
	}
	c.this = max(c.this, ahead)
	c.ahead.Store(max(c.this, c.last))
}

// learnPeriods reports whether an error means that a call had the wrong calendar periods for the
// server's time. If so, nothing ran, and learnPeriods takes the server's time from the error, so
// that the next call has the right periods.
func (s *Store) learnPeriods(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	_, clock, ok := strings.Cut(refused.Error(), errkind.ClockWord+" ")
	now, err := strconv.ParseInt(clock, 10, 64)
	if !ok || err != nil {
		return false
	}
	s.clock.learn(now, true)
	return true
}
