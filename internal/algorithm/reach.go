package algorithm

import (
	"math"
	"math/bits"
	"slices"

	"github.com/stint-limiter/stint"
)

// Reach returns the maximum number of units that a subject can take under the given limits in a
// window of limits[i]: the capacity of that limit, or less if another limit admits less in that
// time. If limits[i] is a bucket, the result `most` is the number that the subject can take at
// once, and `more` is the maximum that a window adds to it. Reach ignores limits with other names,
// which may count something else, and units that settlements and outages can add.
func Reach(limits []stint.Limit, i int) (most, more int64) {
	l := &limits[i]
	p := Of(l)
	most, more = p.Cap, l.Max
	if l.Algorithm == stint.AlgorithmConcurrency {
		return most, more
	}
	for j := range limits {
		if j == i || limits[j].Name != l.Name {
			continue
		}
		inWindow := within(&limits[j], p.Window, p.align())
		more = min(more, inWindow)
		if l.Algorithm == stint.AlgorithmBucket {
			inWindow = within(&limits[j], 1, 1)
		}
		most = min(most, inWindow)
	}
	return most, more
}

// Idle reports whether limits[i] has no effect because another limit denies everything that it
// would deny. Idle ignores limits with other names, and limits for which skip returns true. The
// result `by` is the index of the other limit, or of the one that admits the least if there are
// several. The result `most` is the number of units that it admits in a window of limits[i].
// Refunds, settlements and outages can still fill an idle limit.
func Idle(limits []stint.Limit, i int, skip func(j int) bool) (by int, most int64, ok bool) {
	l := &limits[i]
	p := Of(l)
	leased := slices.ContainsFunc(limits, func(l stint.Limit) bool { return l.Leased })
	for j := range limits {
		if m := &limits[j]; j != i && m.Name == l.Name && !skip(j) && m.Max > 0 && bounds(m, l, &p, leased) {
			if n := within(m, p.Window, p.align()); !ok || n < most {
				by, most, ok = j, n, true
			}
		}
	}
	return by, most, ok
}

// bounds reports whether l, with the parameters p, has room for everything that m admits. leased
// means that units may be leased before they are needed. A log counts leased units as if they were
// charged at the end of their lease, but a meter counts them from the beginning of the lease. So
// with leases, no meter bounds a log.
func bounds(m, l *stint.Limit, p *Params, leased bool) bool {
	if l.Algorithm == stint.AlgorithmConcurrency || m.Algorithm == stint.AlgorithmConcurrency {
		return false
	}
	if p.calendar != nil {
		return false
	}
	if p.log {
		// A charge counts from the beginning of its slice until a span after the end of the slice.
		q, length := Of(m), p.Span+p.Slice
		most := q.logged(length, max(p.Slice, 1))
		if !leased {
			most = min(most, q.metered(length+maxGrace))
		}
		if p.Cap < most {
			return false
		}
	}
	return p.unit == 0 || slower(m, l, p)
}

// align returns the length of a fixed limit's windows, which begin at multiples of that length. For
// other limits, whose windows may begin at any microsecond, it returns 1.
func (p *Params) align() int64 {
	if p.log && p.Span == 0 && p.Slice > 0 {
		return p.Slice
	}
	return 1
}

// maxGrace is the longest grace of a booking, in microseconds. A log counts a booking as if it were
// charged at the end of its grace.
const maxGrace = 20_000

// slower reports whether m admits no more at once than the meter of l holds, and no more afterwards
// than that meter gives back. It returns false if a meter has a tick longer than a microsecond.
func slower(m, l *stint.Limit, p *Params) bool {
	q := Of(m)
	atOnce := q.Cap
	if m.Algorithm == stint.AlgorithmFixed || m.Algorithm == stint.AlgorithmCalendar {
		atOnce = times(q.Cap, 2) // once at the end of a window, and again at the beginning of the next
	}
	if p.tick != 1 || q.unit != 0 && q.tick != 1 || atOnce > p.Cap {
		return false
	}
	hiM, loM := bits.Mul64(uint64(m.Max), uint64(l.Window))
	hiL, loL := bits.Mul64(uint64(l.Max), uint64(m.Window))
	return hiM < hiL || hiM == hiL && loM <= loL
}

// within returns the maximum number of units that a limit admits in a period of the given length
// that begins at a multiple of align.
func within(l *stint.Limit, length, align int64) int64 {
	if l.Algorithm == stint.AlgorithmConcurrency {
		return noBound // any number, because a place can be released as soon as it is taken
	}
	p := Of(l)
	if p.Cap == 0 {
		return 0
	}
	return min(p.logged(length, align), p.metered(length))
}

// logged returns the maximum number of units that the log admits in a period of the given length:
// its capacity at first, and its capacity again each time the previous charges no longer count. It
// assumes the worst case, in which the first charges are at the end of a slice.
func (p *Params) logged(length, align int64) int64 {
	if !p.log {
		return noBound
	}
	if p.calendar != nil { // no period is shorter than three quarters of the longest
		return times(p.Cap, length/(p.Window*3/4)+2)
	}
	period, rest := p.Span, length-1
	if p.Slice > 0 {
		period = (p.Span/p.Slice + 1) * p.Slice
		rest -= p.Span % p.Slice
		if align%p.Slice != 0 {
			rest += p.Slice - 1
		}
	}
	return times(p.Cap, max(rest, 0)/period+1)
}

// metered returns the maximum number of units that the meter admits in a period of the given
// length: its capacity, and the units that it gives back in that time.
func (p *Params) metered(length int64) int64 {
	if p.unit == 0 {
		return noBound
	}
	hi, lo := bits.Mul64(uint64(ceil(length-1, p.tick)), uint64(p.rate))
	if hi >= uint64(p.unit) {
		return noBound
	}
	more, _ := bits.Div64(hi, lo, uint64(p.unit))
	if more > uint64(MaxUnits) {
		return noBound
	}
	return p.Cap + int64(more)
}

// noBound is more than any capacity.
const noBound = int64(math.MaxInt64)

// times returns a · b, or noBound if that is too large.
func times(a, b int64) int64 {
	if hi, lo := bits.Mul64(uint64(a), uint64(b)); hi == 0 && lo <= uint64(MaxUnits) {
		return int64(lo)
	}
	return noBound
}
