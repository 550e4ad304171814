package algorithm

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

func TestChargeLate(t *testing.T) {
	const minute = time.Minute
	for _, x := range []struct {
		name     string
		limit    stint.Limit
		age      time.Duration
		cost     int64
		refilled time.Duration
		used     int64         // beside one unit that was charged just before
		reset    time.Duration // then
	}{
		{"now", stint.PerMinute(10), 0, 3, 2, 4, minute},
		{"ago", stint.PerMinute(10), minute - us, 3, 2, 4, minute},
		{"out of the window", stint.PerMinute(10), minute, 3, 2, 1, minute},
		{"a wide count", stint.PerMinute(10), 10 * s, 3000, 0, 3001, minute},
		{"in the slice at the edge", stint.PerMinute(1000), minute, 3, 2, 4, minute + 480*1000*us},
		{"out of the slice at the edge", stint.PerMinute(1000), minute + us, 3, 2, 1, minute + 480*1000*us},
		{"before the fixed window", stint.Limit{Max: 10, Window: minute, Algorithm: stint.AlgorithmFixed},
			us, 3, 2, 1, minute},
		{"bucket", stint.TokenBucket(10, 1, s), minute, 5, 2 * s, 4, 4 * s},
		{"bucket, all refilled", stint.TokenBucket(10, 1, s), 0, 5, 5 * s, 1, s},
		{"bucket, a part of a unit refilled", stint.TokenBucket(10, 1, s), 0, 5, 1400000 * us, 5, 4600000 * us},
		{"a bucket that does not refill", stint.TokenBucket(10, 0, s), 0, 5, 0, 0, 0},
		{"burst", stint.PerMinute(10).WithBurst(2), s, 5, 12 * s, 6, minute},
		{"burst, out of the window", stint.PerMinute(10).WithBurst(2), minute, 5, 12 * s, 4, minute},
	} {
		var c Count
		p := Of(&x.limit)
		open(&c, &p, start).Charge(1)
		v := open(&c, &p, start)
		v.ChargeLate(start-x.age.Microseconds(), x.cost, x.refilled.Microseconds())
		for _, v := range []*View{v, open(&c, &p, start)} {
			if v.Used() != x.used || v.Reset() != x.reset.Microseconds() {
				t.Errorf("%s: used %d, reset in %d µs; want %d, %v", x.name, v.Used(), v.Reset(), x.used, x.reset)
			}
		}
	}
}
