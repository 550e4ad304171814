package histories

import (
	"math"
	"time"
)

// Design is a model of another limiter's algorithm in a single process, without faults, delays or
// refunds. A benchmark test compares each design with the first program in its name, if that
// program can run in a test.
type Design struct {
	Name string
	// New returns a limiter that allows as many units per window as `most` says. The limiter
	// decides whether a subject may use n units at the given time, measured from the Unix epoch.
	// Calls must be in the order of their times.
	New func(most int64, window time.Duration) (allow func(subject int, at time.Duration, n int64) bool)
	// Calls is the number of store calls for a decision on one limit.
	Calls int
}

// Designs lists the algorithms that stint is compared with.
var Designs = []Design{
	{"window from the first request (ulule)", firstRequest(true), 1},
	{"two-counter estimate (httprate)", twoCounters, 2},
	{"GCRA (throttled, redis_rate)", gcra, 1},
	{"fixed window (envoyproxy/ratelimit)", fixedWindow, 1},
	{"window from the first request (gubernator)", firstRequest(false), 1},
}

// counter counts the units of one subject: n is the number of units in the window that starts at
// begin, and last is the number in the window before it.
type counter struct {
	begin   time.Duration
	n, last int64
}

// firstRequest models a limiter whose window begins with the first request after the end of the
// previous window. If denied is true, the limiter also counts the requests that it denies.
func firstRequest(denied bool) func(int64, time.Duration) func(int, time.Duration, int64) bool {
	return func(most int64, window time.Duration) func(int, time.Duration, int64) bool {
		counters := map[int]counter{}
		return func(subject int, at time.Duration, n int64) bool {
			c, known := counters[subject]
			if !known || at > c.begin+window {
				c = counter{begin: at}
			}
			allowed := c.n+n <= most
			if allowed || denied {
				c.n += n
			}
			counters[subject] = c
			return allowed
		}
	}
}

// fixedWindow models a fixed window that counts all requests, even those that are denied.
func fixedWindow(most int64, window time.Duration) func(int, time.Duration, int64) bool {
	counters := map[int]counter{}
	return func(subject int, at time.Duration, n int64) bool {
		c, begin := counters[subject], at.Truncate(window)
		if c.begin != begin {
			c = counter{begin: begin}
		}
		c.n += n
		counters[subject] = c
		return c.n <= most
	}
}

// twoCounters models a limiter that estimates a sliding window from two fixed windows, as if the
// requests of the previous window had been evenly spread.
func twoCounters(most int64, window time.Duration) func(int, time.Duration, int64) bool {
	counters := map[int]counter{}
	return func(subject int, at time.Duration, n int64) bool {
		c, begin := counters[subject], at.Truncate(window)
		switch {
		case begin == c.begin:
		case begin == c.begin+window:
			c = counter{begin: begin, last: c.n}
		default:
			c = counter{begin: begin}
		}
		estimate := float64(c.last)*float64(window-(at-begin))/float64(window) + float64(c.n)
		allowed := int64(math.Round(estimate))+n <= most
		if allowed {
			c.n += n
		}
		counters[subject] = c
		return allowed
	}
}

// gcra models a limiter that allows a burst as large as its limit. Used units become available
// again at a constant rate: the whole limit per window.
func gcra(most int64, window time.Duration) func(int, time.Duration, int64) bool {
	each, refilled := window/time.Duration(most), map[int]time.Duration{}
	return func(subject int, at time.Duration, n int64) bool {
		next := max(refilled[subject], at) + time.Duration(n)*each
		if next > at+time.Duration(most)*each {
			return false
		}
		refilled[subject] = next
		return true
	}
}
