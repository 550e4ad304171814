package simulate

import (
	"math"
	"sync/atomic"
	"time"
)

// clock is the virtual time: the time of the latest request. It does not move between requests and
// never goes back. It is atomic because background goroutines of the stores read it, too.
type clock struct{ us atomic.Int64 }

// advance moves the clock forward to the given time in Unix nanoseconds. It returns the clock's
// time in Unix microseconds.
func (c *clock) advance(to int64) int64 {
	now := max(c.us.Load(), to/1000)
	c.us.Store(now)
	return now
}

func (c *clock) now() time.Time { return time.UnixMicro(c.us.Load()) }

// instant converts Unix microseconds to a time in UTC.
func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

// duration converts microseconds to a Duration, or to the longest one on overflow.
func duration(us int64) Duration {
	return Duration(min(us, math.MaxInt64/int64(time.Microsecond)) * int64(time.Microsecond))
}
