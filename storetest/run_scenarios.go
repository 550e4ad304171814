package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
)

// scenario is one limit and a sequence of takes under it, one per line.
type scenario struct {
	name  string
	limit stint.Limit
	lines []line
}

// line is a take and its expected answer. after is the time since the previous line.
type line struct {
	after   time.Duration
	cost    int64
	allowed bool
	used    int64
	reset   time.Duration
	retry   time.Duration
}

const (
	ms = time.Millisecond
	us = time.Microsecond
	s  = time.Second
	no = false
	ok = true
)

// Each scenario begins at the start of a minute.
var scenarios = []scenario{
	{"sliding", stint.PerSecond(3), []line{
		{0, 1, ok, 1, s, 0},
		{400 * ms, 1, ok, 2, s, 0},
		{400 * ms, 1, ok, 3, s, 0},
		{0, 1, no, 3, s, 200 * ms},
		{0, 2, no, 3, s, 600 * ms},
		{0, 4, no, 3, s, stint.Never},
		{200*ms - us, 1, no, 3, 800*ms + us, us},
		{us, 1, ok, 3, s, 0}, // no double burst at a boundary
		{400 * ms, 2, no, 2, 600 * ms, 400 * ms},
		{0, 1, ok, 3, s, 0},
		{s, 3, ok, 3, s, 0},
	}},
	{"sliding with a burst", stint.PerSecond(2).BurstTimes(3), []line{
		{0, 6, ok, 6, 3 * s, 0},
		{0, 1, no, 6, 3 * s, s}, // no more than six in any second
		{500 * ms, 1, no, 6, 2500 * ms, 500 * ms},
		{500*ms - us, 1, no, 6, 2*s + us, us},
		{us, 2, ok, 6, 3 * s, 0}, // two are refilled per second
		{0, 1, no, 6, 3 * s, 500 * ms},
		{500*ms - us, 1, no, 6, 2500*ms + us, us},
		{us, 1, ok, 6, 3 * s, 0},
		{500 * ms, 1, ok, 6, 3 * s, 0},
		{3 * s, 6, ok, 6, 3 * s, 0},
	}},
	{"sliding in slices of 8 ms", stint.PerSecond(1000), []line{
		{0, 400, ok, 400, s + 8*ms, 0},
		{7 * ms, 300, ok, 700, s + ms, 0}, // in the same slice
		{ms, 300, ok, 1000, s + 8*ms, 0},
		{0, 1, no, 1000, s + 8*ms, s},
		{s - us, 1, no, 1000, 8*ms + us, us},
		{us, 701, no, 300, 8 * ms, 8 * ms},
		{0, 700, ok, 1000, s + 8*ms, 0},
	}},
	{"fixed", fixed(3, s), []line{
		{700 * ms, 2, ok, 2, 300 * ms, 0},
		{100 * ms, 2, no, 2, 200 * ms, 200 * ms},
		{0, 1, ok, 3, 200 * ms, 0},
		{200*ms - us, 1, no, 3, us, us},
		{us, 3, ok, 3, s, 0},
		{10 * s, 1, ok, 1, s, 0},
	}},
	{"bucket", stint.TokenBucket(5, 2, s), []line{
		{0, 5, ok, 5, 2500 * ms, 0},
		{0, 1, no, 5, 2500 * ms, 500 * ms},
		{250 * ms, 1, no, 5, 2250 * ms, 250 * ms}, // half a token still counts as used
		{250*ms - us, 1, no, 5, 2*s + us, us},
		{us, 1, ok, 5, 2500 * ms, 0},
		{600 * ms, 0, ok, 4, 1900 * ms, 0},
		{400 * ms, 3, no, 3, 1500 * ms, 500 * ms},
		{time.Hour, 5, ok, 5, 2500 * ms, 0},
	}},
	{"bucket that refills thirds of a token", stint.TokenBucket(1, 3, s), []line{
		{0, 1, ok, 1, 333334 * us, 0},
		{333333 * us, 1, no, 1, us, us},
		{us, 1, ok, 1, 333334 * us, 0}, // the refill beyond a full bucket is not carried over
		{333334 * us, 1, ok, 1, 333334 * us, 0},
	}},
	{"concurrency", stint.Concurrency(2, s), []line{
		{0, 1, ok, 1, s, 0},
		{300 * ms, 9, ok, 2, s, 0},
		{0, 1, no, 2, s, 700 * ms},
		{0, 0, ok, 2, s, 0},
		{700*ms - us, 1, no, 2, 300*ms + us, us},
		{us, 1, ok, 2, s, 0},
	}},
}

var scenarioTests = append(tableTests(),
	clocked("retry-after is exact", retryLimits, retryHonesty),
	everyStore("room comes back", comebackLimits, roomComesBack),
	check{name: "limits are not exceeded under random load", clock: true, test: neverOver},
)

func tableTests() []check {
	var tests []check
	for _, c := range scenarios {
		tests = append(tests, clocked("scenario: "+c.name, limits{c.limit}, func(k *tester) {
			k.toFull(time.Minute)
			for i, l := range c.lines {
				d := k.after(l.after).take(l.cost)
				s := d.States()[0]
				if got := (line{l.after, l.cost, d.Allowed, s.Used, s.ResetAfter, d.RetryAfter}); got != l {
					k.Fatalf("line %d: got\n%+v, want\n%+v", i, got, l)
				}
			}
		}))
	}
	return tests
}
