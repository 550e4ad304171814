// Package algorithm is for stores in Go: the rules of docs/rules.md as pure code, with no clock, no
// lock and no I/O. Times are microseconds since the Unix epoch. A new algorithm is written three
// times, from a new section of docs/rules.md: here, in redisstore/lua, and, slow and simple, in
// internal/oracle. Its name and its bounds are in the root package, and package resilience decides
// what one process may grant of it while the store is down.
//
// A [Count] is the state of one limit: a log, a meter or both, and bookings; or the holders of
// places, under a concurrency limit.
//
// A [View] is a count as the rules see it at one instant. Opening and asking it writes nothing.
// Charging, leasing, booking, settling and giving back write the opened count and the change.
//
// Counts that share a clock make up a state. Its owner knows when it was last written, and calls
// [Count.StepBack] on all of them when the clock has stepped back since.
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
	// MaxInstant bounds computations with instants; those past MaxUnits never come. Only a meter in
	// debt gets near it.
	MaxInstant = int64(1) << 60
	// Never is the instant that does not come.
	Never = int64(math.MaxInt64)
)

// Params are derived from a limit.
type Params struct {
	// Cap is the capacity. most is, too, but -1 if that is 0: then nothing ever fits.
	Cap, most int64
	// Window is the limit's, in microseconds.
	Window int64

	// Places says that the limit is a concurrency limit: it has neither log nor meter, but holders.
	Places bool
	// log says that there is one. Its entries count for Span after their stamps; those in one Slice
	// of time share a stamp, unless that is 0. The log needs at most bound
	// entries while no other limit uses it and no subject is in debt.
	log         bool
	Span, Slice int64
	bound       int

	// unit is the weight of one unit of cost, 0 without a meter. One tick gives back rate, 0 if Max
	// is 0. full is the weight of the capacity, and refill how long a meter takes at most to
	// give that back.
	unit, rate, tick int64
	full, refill     int64

	// calendar says where the slices of a calendar limit end, which its log has instead of Slice.
	calendar *calendar.Calendar
}

// Of derives a limit's parameters. A limit that is not valid gets some, too: nothing panics, but
// what it then means is undefined.
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

// Strikes returns the parameters of the log that counts denials towards a ban.
func Strikes(after int, within time.Duration) Params {
	w := max(within, stint.MinWindow).Microseconds()
	return Params{Cap: int64(after), most: int64(after), Window: w, log: true, Span: w,
		bound: min(max(after, 1), MaxEntries)}
}

// stamp is the instant until which, plus the span, a charge at t counts, unless the limit is a
// calendar limit: see [View.stamp].
func (p *Params) stamp(t int64) int64 {
	if p.Slice == 0 {
		return t
	}
	return t - t%p.Slice + p.Slice
}

// void reports that the limit has neither log nor meter: it is a concurrency limit, or a bucket
// with Max 0, which keeps nothing.
func (p *Params) void() bool { return !p.log && p.unit == 0 }

// ticks is the number of ticks of the meter until t.
func (p *Params) ticks(t int64) int64 {
	if p.tick == 1 {
		return t
	}
	return t / p.tick
}

// heaviest is more than any weight that a valid limit can count.
const heaviest = int64(1) << 60

// weight is the weight of n units, at most heaviest.
func (p *Params) weight(n int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(p.unit))
	if hi != 0 || lo > uint64(heaviest) {
		return heaviest
	}
	return int64(lo)
}

// given is the weight that the meter gives back from one instant to another, or heaviest.
func (p *Params) given(from, to int64) int64 {
	hi, lo := bits.Mul64(uint64(max(p.ticks(to)-p.ticks(from), 0)), uint64(p.rate))
	if hi != 0 || lo > uint64(heaviest) {
		return heaviest
	}
	return int64(lo)
}

// wait is in how long the meter gives back a weight at the latest.
func (p *Params) wait(weight int64) int64 {
	ticks := ceil(weight, p.rate)
	if ticks > MaxInstant/p.tick {
		return MaxInstant
	}
	return ticks * p.tick
}

// ceil is a / b, rounded up.
func ceil(a, b int64) int64 { return (a + b - 1) / b }

// instant is t, or Never if that is too far ahead to be counted exactly.
func instant(t int64) int64 {
	if t > MaxUnits {
		return Never
	}
	return t
}
