// Package algorithm implements the rules of docs/rules.md for stores in Go, as pure code without
// clocks, locks or I/O. Times are microseconds since the Unix epoch. A new algorithm needs a new
// section in docs/rules.md and three implementations: here, in redisstore/lua, and a slow and
// simple one in internal/oracle. The root package defines its name and bounds, and package
// resilience decides how much of such a limit one process may grant while the store is down.
//
// A [Count] holds the usage of one limit: a log, a meter or both, bookings, and held units. The
// count of a concurrency limit has the holders of places instead.
//
// A [View] applies the rules to a count at one instant. Opening and querying a view writes nothing.
// The methods that charge, lease, book, settle or give back units write the opened count together
// with the change.
//
// Counts that are written together make up a state. The owner of a state stores the time of its
// last write. If the clock has stepped back since that time, the owner calls [Count.StepBack] on
// every count of the state.
package algorithm

import (
	"math"
	"math/bits"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/calendar"
)

const (
	// MaxUnits bounds every count, level and sum.
	MaxUnits = stint.MaxUnits
	// MaxInstant bounds the computed time that a meter needs to give back a weight.
	MaxInstant = int64(1) << 60
	// Never is an instant that is never reached.
	Never = int64(math.MaxInt64)
)

// Params holds values that are derived from a limit.
type Params struct {
	// Cap is the capacity. The field most has the same value, or -1 if Cap is 0, because then
	// nothing ever fits.
	Cap, most int64
	// Window is the limit's window in microseconds.
	Window int64

	// Places reports whether the limit is a concurrency limit, which has holders instead of a log
	// and a meter.
	Places bool
	// log reports whether the limit has a log. An entry counts for Span after its stamp. If Slice
	// is not 0, charges within the same slice of that length share an entry. Span and Slice are in
	// microseconds. The log needs at most bound entries while no other limit uses it and the usage
	// is within the capacity.
	log         bool
	Span, Slice int64
	bound       int

	// unit is the weight of one unit of cost. Once every tick microseconds, the level of the meter
	// falls by rate, which is also a weight. All three are 0 if the limit has no meter or Max is 0.
	// full is the weight of the capacity, and refill is the longest time that the meter needs to
	// give it back.
	unit, rate, tick int64
	full, refill     int64

	// calendar determines the slices of a calendar limit, whose Slice is 0.
	calendar *calendar.Calendar
}

// Of derives the parameters of a limit. The parameters of an invalid limit cause no panic, but are
// otherwise undefined.
func Of(l *stint.Limit) Params {
	p := Params{
		Cap:    min(max(l.Capacity(), 0), MaxUnits),
		Window: min(max(l.Window, stint.MinWindow), stint.MaxWindow).Microseconds(),
		Places: l.Algorithm == stint.AlgorithmConcurrency,
		bound:  1,
	}
	p.log = !p.Places && l.Algorithm != stint.AlgorithmBucket
	if p.most = p.Cap; p.Cap == 0 {
		p.most = -1
	}
	switch l.Algorithm {
	case stint.AlgorithmFixed:
		p.Slice = p.Window
	case stint.AlgorithmCalendar:
		p.calendar = &calendar.Calendar{Period: l.Window, Start: l.Start, Zone: l.Zone}
	case stint.AlgorithmSliding:
		p.Span = p.Window
		p.bound = int(min(p.Cap, stint.Resolution+1))
		if p.Cap > stint.Resolution {
			p.Slice = (p.Span + stint.Resolution - 1) / stint.Resolution
		}
	}
	if unit, rate, tick := l.Meter(); rate > 0 {
		p.unit, p.rate, p.tick = unit, rate, tick
		p.full = p.weight(p.Cap)
		p.refill = p.wait(p.full)
	}
	return p
}

// Strikes returns the parameters of the log that counts denials toward a ban.
func Strikes(after int, within time.Duration) Params {
	w := max(within, stint.MinWindow).Microseconds()
	return Params{Cap: int64(after), most: int64(after), Window: w, log: true, Span: w,
		bound: min(max(after, 1), MaxEntries)}
}

// stamp returns the stamp of a charge at t: the charge counts until its stamp plus Span. For
// calendar limits, see [View.stamp].
func (p *Params) stamp(t int64) int64 {
	if p.Slice == 0 {
		return t
	}
	return t - t%p.Slice + p.Slice
}

// void reports whether the limit has neither log nor meter: it is a concurrency limit, or a bucket
// with Max 0, which keeps nothing.
func (p *Params) void() bool { return !p.log && p.unit == 0 }

// ticks returns the number of whole ticks of the meter from the Unix epoch to t.
func (p *Params) ticks(t int64) int64 {
	if p.tick == 1 {
		return t
	}
	return t / p.tick
}

// heaviest is greater than any weight that a valid limit can count.
const heaviest = int64(1) << 60

// weight returns the weight of n units, at most heaviest.
func (p *Params) weight(n int64) int64 { return product(n, p.unit) }

// given returns the weight that the meter gives back from one instant to another, at most heaviest.
func (p *Params) given(from, to int64) int64 {
	return product(max(p.ticks(to)-p.ticks(from), 0), p.rate)
}

// product returns a · b, at most heaviest.
func product(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > uint64(heaviest) {
		return heaviest
	}
	return int64(lo)
}

// wait returns the longest time that the meter needs to give back weight, at most MaxInstant.
func (p *Params) wait(weight int64) int64 {
	ticks := ceil(weight, p.rate)
	if ticks > MaxInstant/p.tick {
		return MaxInstant
	}
	return ticks * p.tick
}

func ceil(a, b int64) int64 { return (a + b - 1) / b }

// instant returns t, or Never if t is past MaxUnits.
func instant(t int64) int64 {
	if t > MaxUnits {
		return Never
	}
	return t
}
