// Package contract provides computations on requests, claims, charges and limits, and small data
// structures. Stores and other packages of this module share them. Users of the root package do not
// need them.
package contract

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/calendar"
)

// AppliesBans reports whether bans apply to the request.
func AppliesBans(r *stint.Request) bool { return r.Bans != nil && r.Mode != driver.ModeForce }

// Life returns how long the request's ID is remembered: IDLife or, if that is 0, the shortest
// window of the first claim, but at least Hold.
func Life(r *stint.Request) time.Duration {
	if r.IDLife > 0 {
		return max(r.IDLife, r.Hold)
	}
	return max(shortest(&r.Claims[0]), r.Hold)
}

// Charges reports whether a claim costs anything.
func Charges(c *stint.Claim) bool {
	if c.Costs == nil {
		return c.Cost > 0
	}
	return slices.ContainsFunc(c.Limits, func(l stint.Limit) bool { return c.CostOf(&l) > 0 })
}

// Total returns the true cost of an amendment, summed over all names.
func Total(a *stint.Amendment) (sum int64) {
	if a.Costs == nil {
		return a.Cost
	}
	for _, cost := range a.Costs {
		sum += cost
	}
	return sum
}

// TotalOf returns the true cost that an amendment gives for the limits with the given name, and
// whether it gives one.
func TotalOf(a *stint.Amendment, name string) (cost int64, ok bool) {
	if a.Costs == nil {
		return a.Cost, true
	}
	cost, ok = a.Costs[name]
	return cost, ok
}

// Grace returns how long after the booked time a booking may be used. The booking counts as if it
// were charged at the end of that time. The grace is a twentieth of the shortest window, but at
// least 2 and at most 20 milliseconds. For a tentative booking, it is 0.
func Grace(r *stint.Request) time.Duration {
	if r.Terms().Tentative {
		return 0
	}
	window := stint.MaxWindow
	for i := range r.Claims {
		window = min(window, shortest(&r.Claims[i]))
	}
	return min(max(window/20, 2*time.Millisecond), 20*time.Millisecond).Truncate(time.Microsecond)
}

func shortest(c *stint.Claim) time.Duration {
	window := stint.MaxWindow
	for i := range c.Limits {
		window = min(window, c.Limits[i].Window)
	}
	return window
}

// Longest returns how far ahead ModeReserve may book: MaxWait or, if that is 0, the longest time
// for which any limit may count a unit.
func Longest(r *stint.Request) time.Duration {
	if r.MaxWait > 0 {
		return r.MaxWait
	}
	return stint.MaxWindow * stint.MaxBurst
}

// StateNames appends the distinct names of the claim's limits to names, in the order of the limits.
// It ignores concurrency limits. A store keeps a state for each name.
func StateNames(c *stint.Claim, names []string) []string {
	first := len(names)
	for i := range c.Limits {
		if l := &c.Limits[i]; l.Algorithm != stint.AlgorithmConcurrency && !slices.Contains(names[first:], l.Name) {
			names = append(names, l.Name)
		}
	}
	return names
}

// ValidateInspect returns a [*stint.InvalidError] that describes everything that is wrong with c, a
// claim to inspect. It returns nil if c is valid.
func ValidateInspect(c stint.Claim) error {
	c.Cost, c.Costs = 0, nil
	if len(c.Limits) == 0 {
		c.Limits = []stint.Limit{stint.PerSecond(1)} // the claim need not have limits
	}
	r := stint.Request{Claims: []stint.Claim{c}}
	return r.Validate()
}

// ValidateFailure returns an error that describes everything that is wrong with a failure policy.
func ValidateFailure(p *stint.FailurePolicy) error {
	r := stint.Request{Claims: []stint.Claim{{Subject: "any", Limits: []stint.Limit{stint.PerSecond(1)}}}, Failure: p}
	return Mistakes(r.Validate())
}

// Mistakes returns the mistakes in a [*stint.InvalidError], to make them part of another error. It
// returns any other error unchanged.
func Mistakes(err error) error {
	if invalid, ok := err.(*stint.InvalidError); ok {
		return invalid.Err
	}
	return err
}

// EachMistake returns the mistakes in a [*stint.InvalidError], or in an error that joins several
// errors, one by one. It returns any other error alone, and no errors for nil.
func EachMistake(err error) (all []error) {
	switch e := Mistakes(err).(type) {
	case nil:
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			all = append(all, EachMistake(part)...)
		}
	default:
		all = append(all, e)
	}
	return all
}

// Limits yields every limit of claims with its claim, in the order of a decision's usages. Code
// that decides requests must not use it, because it moves the claims to the heap.
func Limits(claims []stint.Claim) iter.Seq2[*stint.Claim, *stint.Limit] {
	return func(yield func(*stint.Claim, *stint.Limit) bool) {
		for i := range claims {
			c := &claims[i]
			for k := range c.Limits {
				if !yield(c, &c.Limits[k]) {
					return
				}
			}
		}
	}
}

// CountLimits returns the number of limits in all claims.
func CountLimits(claims []stint.Claim) (n int) {
	for i := range claims {
		n += len(claims[i].Limits)
	}
	return n
}

// MaxOwnSettled is the maximum number of entries in a [SettledSet]. For the number of settlements
// that a store remembers, see [driver.MaxSettled].
const MaxOwnSettled = 65_536

// DefaultBudget is the time budget of a decision unless a [stint.FailurePolicy] sets another one.
// For comparison, Envoy waits 20 ms for its rate limit service by default.
const DefaultBudget = 15 * time.Millisecond

// Defaults of the breaker in package resilience; see resilience.Config.
const (
	DefaultBreakerFailures = 5
	DefaultBreakerProbe    = 250 * time.Millisecond
	DefaultBreakerRetry    = 30 * time.Second
	// MinBreakerTime is the minimum that configurations and flags accept for the probe time and the
	// retry time.
	MinBreakerTime = 10 * time.Millisecond
)

// SameID reports whether two limits are counted as one: they have the same name, algorithm and
// window.
func SameID(l, m *stint.Limit) bool {
	return l.Window == m.Window && l.Algorithm == m.Algorithm && l.Name == m.Name
}

// EntryBytes returns the size in bytes of a log entry in Redis, under a limit with the given
// capacity. An entry has a time and a number of units up to the capacity.
func EntryBytes(capacity int64) int {
	switch {
	case capacity <= stint.Resolution:
		return 8
	case capacity < 1<<24:
		return 10
	case capacity < 1<<40:
		return 12
	}
	return 14
}

// HasMeter reports whether the limit has a meter: it is a bucket, or a sliding limit with a burst.
// See [stint.Limit.Meter].
func HasMeter(l *stint.Limit) bool {
	return l.Algorithm == stint.AlgorithmBucket ||
		l.Algorithm == stint.AlgorithmSliding && l.Burst > l.Max && l.Max > 0
}

// Show sets the entries of a window, sorted by time. If there are too many, it omits the oldest and
// adds their units to LeftOut.
func Show(w *driver.Window, entries []driver.Entry) {
	slices.SortStableFunc(entries, func(a, b driver.Entry) int {
		return cmp.Or(a.At.Compare(b.At), a.Until.Compare(b.Until))
	})
	for len(entries) > driver.MaxEntries {
		w.LeftOut += entries[0].Units
		entries = entries[1:]
	}
	w.Entries = entries
}

// Period returns the beginning and the end of the window that contains the time `at`, for a fixed
// or calendar limit. All times are in microseconds since the Unix epoch. In a store, a calendar
// period may have different bounds, if it began under another calendar.
func Period(l *stint.Limit, at int64) (begin, end int64) {
	if l.Algorithm == stint.AlgorithmCalendar {
		e := calendar.Calendar{Period: l.Window, Start: l.Start, Zone: l.Zone}.Around(at)
		return e.Last, e.This
	}
	window := l.Window.Microseconds()
	begin = at - at%window
	return begin, begin + window
}

// Duration converts microseconds to a duration. Too large a number becomes the longest possible
// duration.
func Duration(us int64) time.Duration {
	if us > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}

// Instant converts microseconds since the Unix epoch to a time.
func Instant(us int64) time.Time { return time.UnixMicro(us).UTC() }
