package resilience

import (
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
)

// clock is the time of this process, in nanoseconds since its start, and what it knows of the
// store's.
type clock struct {
	start time.Time
	ahead atomic.Int64 // of the store's clock, in microseconds
}

// now is the time since the start, in nanoseconds.
func (c *clock) now() int64 {
	return int64(time.Since(c.start))
}

// wall is an instant in the store's clock, in microseconds, as far as that is known.
func (c *clock) wall(now int64) int64 {
	return c.start.UnixMicro() + now/int64(time.Microsecond) + c.ahead.Load()
}

// instant is an instant of the store's clock in ours.
func (c *clock) instant(wall, now int64) int64 {
	return now - (c.wall(now)-wall)*int64(time.Microsecond)
}

// synchronize learns of the store's clock, from the answer to a call that was sent at a time. It
// was read between the sending and now.
func (c *clock) synchronize(d *stint.Decision, sent time.Time) {
	read := d.Charge.Data().Now
	if read == 0 {
		return
	}
	now, ahead := c.now(), c.ahead.Load()
	least := read - c.wall(now) + ahead
	most := least + max(time.Since(sent).Microseconds()+1, 0)
	if next := min(max(ahead, least), most); next != ahead {
		c.ahead.CompareAndSwap(ahead, next)
	}
}
