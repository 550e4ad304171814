package stint

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// Validate reports everything that is wrong with the limit, naming each field
// and what it accepts.
func (l Limit) Validate() error {
	if l.valid() {
		return nil
	}
	var errs []error
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if l.Max < 0 || l.Max > MaxUnits {
		mistake("Max is %d; want 0 to %d", l.Max, MaxUnits)
	}
	if l.Window < MinWindow || l.Window > MaxWindow {
		mistake("Window is %v; want %v to %d days", l.Window, MinWindow, MaxWindow/day)
	} else if l.Window%time.Microsecond != 0 {
		mistake("Window is %v; want whole microseconds", l.Window)
	}
	switch l.Algorithm {
	case Sliding:
		if l.Burst < 0 || l.Burst > 0 && (l.Max <= 0 || l.Burst%l.Max != 0 || l.Burst/l.Max > MaxBurst) {
			mistake("Burst is %d; want a multiple of Max, at most %d times", l.Burst, MaxBurst)
		} else if l.Burst > MaxUnits {
			mistake("Burst is %d; want at most %d units", l.Burst, MaxUnits)
		} else if l.HasMeter() && l.Window > 0 && !l.meterFits() {
			mistake("a burst of %d refilled at %d per %v cannot be counted exactly; want %s", l.Burst, l.Max, l.Window, meterHint)
		}
	case Bucket:
		if l.Burst < 0 || l.Burst > MaxUnits {
			mistake("Burst is %d; want 0 to %d", l.Burst, MaxUnits)
		} else if l.Max > 0 && l.Window > 0 && !l.meterFits() {
			mistake("a bucket of %d refilled at %d per %v cannot be counted exactly; want %s, and full again within %d days",
				l.Capacity(), l.Max, l.Window, meterHint, MaxBurst*MaxWindow/day)
		}
	case Fixed, Concurrency:
		if l.Burst != 0 {
			mistake("Burst is %d; a %v limit has none", l.Burst, l.Algorithm)
		}
	default:
		mistake("Algorithm is %d; want Sliding, Bucket, Fixed or Concurrency", l.Algorithm)
	}
	if l.Leased && !l.canLease() {
		mistake("a %v limit with a capacity of %d cannot be leased; want sliding or fixed, without a burst", l.Algorithm, l.Capacity())
	}
	if !validName(l.Name) {
		mistake("Name is %q; want at most %d letters, digits, '_', '-' or '.'", l.Name, maxName)
	}
	return errors.Join(errs...)
}

// valid is Validate for the hot path: no allocation, no message.
func (l *Limit) valid() bool {
	if uint64(l.Max) > uint64(MaxUnits) || l.Window < MinWindow || l.Window > MaxWindow ||
		l.Window%time.Microsecond != 0 || uint64(l.Burst) > uint64(MaxUnits) || l.Name != "" && !validName(l.Name) ||
		l.Leased && !l.canLease() {
		return false
	}
	switch l.Algorithm {
	case Sliding:
		return l.Burst == 0 || l.Max > 0 && l.Burst%l.Max == 0 && l.Burst/l.Max <= MaxBurst && (l.Burst == l.Max || l.meterFits())
	case Bucket:
		return l.Max == 0 || l.meterFits()
	case Fixed, Concurrency:
		return l.Burst == 0
	}
	return false
}

// canLease reports whether units can be taken ahead of their use: only a log can
// count them from then on.
func (l *Limit) canLease() bool { return !l.HasMeter() && (l.Algorithm == Sliding || l.Algorithm == Fixed) }

// meterHint says what a limit whose meter cannot be counted exactly should be instead.
const meterHint = "a rounder rate or window: capacity × window/gcd(Max, window) of at most 2^53, " +
	"the window in µs, or in whole milliseconds or seconds"

// meterFits reports whether the limit's meter can be counted exactly, and is empty
// again within the longest time that a store remembers anything.
func (l *Limit) meterFits() bool {
	unit, rate, tick := l.Meter()
	if unit == 0 {
		return false
	}
	ticks := uint64(l.Capacity()) * uint64(unit) / uint64(rate) // the product is at most MaxUnits
	return ticks <= uint64((MaxBurst*MaxWindow).Microseconds()/tick)
}

// ticks are the lengths that a meter's steps may have, in microseconds.
var ticks = [...]int64{1, 1000, 1_000_000}

// Meter returns how the meter of a bucket or a burst counts in integers: one unit of
// cost weighs unit, and every tick, in microseconds, gives back rate. The tick is the
// finest of 1 µs, 1 ms and 1 s that divides the window and in which the weight of the
// capacity is at most [MaxUnits]. If Max is 0, rate is 0. If the limit has no meter,
// or one that cannot be counted exactly, all are 0.
func (l *Limit) Meter() (unit, rate, tick int64) {
	window := l.Window.Microseconds()
	if !l.HasMeter() || window <= 0 || l.Max < 0 {
		return 0, 0, 0
	}
	if l.Max == 0 {
		return 1, 0, 1
	}
	for _, tick := range ticks {
		if window%tick != 0 {
			break
		}
		g := gcd(window/tick, l.Max)
		unit, rate = window/tick/g, l.Max/g
		if hi, lo := bits.Mul64(uint64(l.Capacity()), uint64(unit)); hi == 0 && lo <= uint64(MaxUnits) {
			return unit, rate, tick
		}
	}
	return 0, 0, 0
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

const maxName = 64

func validName(name string) bool {
	if len(name) > maxName {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}
