package simulate

import (
	"math"
	"sync/atomic"
	"time"
)

// clock is the virtual time: that of the latest request. It stands still between requests and never steps back. The
// goroutines of stores read it too.
type clock struct{ us atomic.Int64 }

// advance moves the clock on to a time in Unix nanoseconds, unless it is past that. It returns the time in microseconds.
func (c *clock) advance(to int64) int64 {
	now := max(c.us.Load(), to/1000)
	c.us.Store(now)
	return now
}

func (c *clock) micros() int64 { return c.us.Load() }

func (c *clock) now() time.Time { return time.UnixMicro(c.us.Load()) }

// instant is a time in microseconds, for people.
func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

// The bounds of times in nanoseconds.
const (
	minInstant = math.MinInt64
	maxInstant = math.MaxInt64
)

// bound is a time in nanoseconds, or another if it is zero. One that is too early or too late for nanoseconds is the
// earliest or the latest of them.
func bound(t time.Time, otherwise int64) int64 {
	switch {
	case t.IsZero():
		return otherwise
	case t.Before(time.Unix(0, minInstant)):
		return minInstant
	case t.After(time.Unix(0, maxInstant)):
		return maxInstant
	}
	return t.UnixNano()
}
