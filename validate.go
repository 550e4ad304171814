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
		}
	case Bucket:
		if l.Burst < 0 || l.Burst > MaxUnits {
			mistake("Burst is %d; want 0 to %d", l.Burst, MaxUnits)
		} else if l.Max > 0 && l.Window > 0 && !l.bucketFits() {
			mistake("a bucket of %d refilled at %d per %v cannot be counted exactly; want a rounder rate: "+
				"capacity × window/gcd(Max, window in µs) of at most %d, and full again within %d days",
				l.Capacity(), l.Max, l.Window, MaxUnits, MaxBurst*MaxWindow/day)
		}
	case Fixed, Concurrency:
		if l.Burst != 0 {
			mistake("Burst is %d; a %v limit has none", l.Burst, l.Algorithm)
		}
	default:
		mistake("Algorithm is %d; want Sliding, Bucket, Fixed or Concurrency", l.Algorithm)
	}
	if l.Leased && !l.canLease() {
		mistake("a %v limit cannot be leased; want sliding or fixed", l.Algorithm)
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
		return l.Burst == 0 || l.Max > 0 && l.Burst%l.Max == 0 && l.Burst/l.Max <= MaxBurst
	case Bucket:
		return l.Max == 0 || l.bucketFits()
	case Fixed, Concurrency:
		return l.Burst == 0
	}
	return false
}

// canLease reports whether units can be taken ahead of their use: only a log can
// count them from then on.
func (l *Limit) canLease() bool { return l.Algorithm == Sliding || l.Algorithm == Fixed }

// bucketFits reports whether a bucket's level, counted in the smallest unit in
// which its refill per microsecond is whole, stays within MaxUnits, and is full
// again within the longest span of any limit.
func (l *Limit) bucketFits() bool {
	unit, rate := l.BucketScale()
	hi, lo := bits.Mul64(uint64(l.Capacity()), uint64(unit))
	return hi == 0 && lo <= uint64(MaxUnits) && lo/uint64(rate) <= uint64((MaxBurst*MaxWindow).Microseconds())
}

// BucketScale returns how a bucket counts in integers: one unit of cost weighs
// unit, and every microsecond gives back rate. Both are reduced by their
// greatest common divisor.
func (l *Limit) BucketScale() (unit, rate int64) {
	window := l.Window.Microseconds()
	if l.Max <= 0 {
		return 1, 0
	}
	a, b := window, l.Max
	for b != 0 {
		a, b = b, a%b
	}
	return window / a, l.Max / a
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
