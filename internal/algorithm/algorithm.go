// Package algorithm holds the rules of docs/rules.md as pure code: no clock, no
// lock, no I/O. Times are microseconds since the Unix epoch.
//
// A state ([Log], [Bucket], [Concurrency]) is what a store keeps. A view of it
// is the state as the rules see it at one instant. Opening a view and asking it
// writes nothing, save that a view opened to write follows a clock that stepped
// back; charging, leasing, booking, settling and giving back write the opened state and the change.
package algorithm

import (
	"math"
	"time"

	"github.com/stint-limiter/stint"
)

const (
	// MaxUnits bounds every count and sum.
	MaxUnits = stint.MaxUnits
	// MaxInstant is the last instant: what would come later never comes. Only a
	// bucket that takes centuries to refill, booked far ahead, gets near it.
	MaxInstant = int64(1) << 60
	// Never is the instant that does not come.
	Never = int64(math.MaxInt64)
)

// Params is what the rules derive from a limit.
type Params struct {
	// Cap is the capacity.
	Cap int64
	// Window is the limit's, in microseconds.
	Window int64

	// Span, Slice and Times are those of a log.
	Span, Slice, Times int64
	// hold times keep is how long a log keeps an entry.
	hold int64
	// bound is how many entries a log needs at most, while nothing but this limit
	// uses it and nobody is in debt.
	bound int

	// Unit and Rate are those of a bucket; Rate is 0 if it is never refilled.
	Unit, Rate int64
}

// Of derives a limit's parameters. A limit that is not valid gets some, too:
// nothing panics, but what it then means is undefined.
func Of(l *stint.Limit) Params {
	p := Params{
		Cap:    min(max(l.Capacity(), 0), MaxUnits),
		Window: min(max(l.Window, stint.MinWindow), stint.MaxWindow).Microseconds(),
	}
	switch l.Algorithm {
	case stint.Bucket:
		p.Unit, p.Rate = l.BucketScale()
		p.Unit = max(p.Unit, 1)
	case stint.Fixed:
		p.Times, p.Slice, p.bound = 1, p.Window, 1
	case stint.Sliding:
		p.Times = min(max(l.BurstTimes(), 1), stint.MaxBurst)
		p.Span, p.hold = p.Times*p.Window, p.Window
		p.bound = int(min(p.Cap, stint.Resolution+1))
		if p.Cap > stint.Resolution {
			p.Slice = (p.Span + stint.Resolution - 1) / stint.Resolution
		}
	}
	return p
}

// Strikes returns the parameters of the log that counts denials towards a ban.
func Strikes(after int, within time.Duration) Params {
	w := max(within, stint.MinWindow).Microseconds()
	return Params{Cap: int64(after), Window: w, Span: w, Times: 1, hold: w, bound: min(max(after, 1), maxEntries)}
}

// stamp is the instant until which, plus the span, a charge at t counts.
func (p *Params) stamp(t int64) int64 {
	if p.Slice == 0 {
		return t
	}
	return t - t%p.Slice + p.Slice
}
