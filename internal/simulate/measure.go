package simulate

import (
	"time"

	"github.com/stint-limiter/stint/internal/algorithm"
)

// measure counts the charges of one claim under many limits with the same window. The maximums of
// these limits are the numbers in the [scale].
//
// Two counts hold all charges, as if nothing were ever denied:
//
//   - large has slices, like the count of every limit above stint.Resolution. With slices, units
//     become available later than without slices.
//   - exact has no slices. Its limit is the largest one without slices. Once that limit is
//     exceeded, exact is dropped, because the subject needs a limit with slices.
//
// A step is the count of one limit of the scale. It differs from the two counts only after it has
// denied something, or after a settlement that it could not charge in full. So a step is created
// only then, as a copy of one of the counts. From then on, it denies what the limit would have
// denied. plain has the steps without slices, and wide has the steps with slices. They are separate
// because a limit without slices may deny less than a somewhat larger limit with slices.
//
// The two counts ignore bursts, because how fast the meter of a burst empties depends on the
// maximum of the limit. Instead, the field meter records all charges. From these charges, it
// computes the maximum that a limit with the burst needs, and the level of the meter of a new step.
type measure struct {
	need        *need
	exact       *algorithm.Count
	large       *algorithm.Count
	meter       meter
	plain, wide []step // steps without slices and with slices, the smallest limit first
}

// step is the count of one limit of the scale.
type step struct {
	*algorithm.Count
	took bool // whether the limit admitted the last request
}

// add adds a charge, and counts a denial for each limit that would have denied it.
func (m *measure) add(w *window, at, cost int64) {
	bucketMax := int64(0)
	if w.Burst > 1 {
		bucketMax = m.meter.add(at, cost, time.Duration(w.Window).Microseconds(), w.Burst)
	}
	var exact, large algorithm.View
	if m.exact != nil {
		exact.Open(m.exact, &w.exactLimit, at, 0)
		needed := max(w.maxFor(exact.Used()+cost), bucketMax)
		m.plain = m.climb(m.plain, w, 0, w.sliceless, needed, cost, m.exact)
		if exact.Fits(cost) {
			m.need.exact = max(m.need.exact, needed)
			exact.Charge(cost)
		} else {
			m.exact, m.need.exceeded = nil, true
		}
	}
	large.Open(m.large, &w.largeLimit, at, 0)
	needed := max(w.maxFor(large.Used()+cost), bucketMax)
	m.wide = m.climb(m.wide, w, w.sliceless, len(w.steps), needed, cost, m.large)
	m.need.large = max(m.need.large, needed)
	large.Charge(cost)
	w.take(m.plain, 0, at, cost)
	w.take(m.wide, w.sliceless, at, cost)
}

// climb appends the missing steps for the limits of the scale that have an index in [from, to) and
// a maximum less than most. The first step in steps is the one for the limit at index from. Each
// new step is a copy of history. If last is not 0, it is the cost of the latest charge, and the
// meters of the new steps leave that charge out.
func (m *measure) climb(steps []step, w *window, from, to int, most, last int64, history *algorithm.Count) []step {
	for i := from + len(steps); i < to && w.steps[i].max < most; i++ {
		count := history.Clone()
		if w.Burst > 1 {
			count.CopyMeter(m.meter.bucket(&w.steps[i].Params, last))
		}
		steps = append(steps, step{Count: count})
	}
	return steps
}

// take charges cost to each step that has room for it, and counts a denial for each of the other
// steps. index is the scale index of the first step.
func (w *window) take(steps []step, index int, at, cost int64) {
	var v algorithm.View
	for i := range steps {
		v.Open(steps[i].Count, &w.steps[index+i].Params, at, 0)
		if steps[i].took = v.Fits(cost); steps[i].took {
			v.Charge(cost)
		} else {
			w.denied[index+i]++
		}
	}
}

// settle changes the cost of the last charge from cost to truth, the true cost, in all counts that
// admitted it. debt is as in [algorithm.View.Settle].
func (m *measure) settle(w *window, at, cost, truth, debt int64) {
	var v algorithm.View
	if truth > cost {
		m.raise(w, at, truth-cost)
	}
	m.meter.amend(truth - cost)
	settle := func(c *algorithm.Count, p *algorithm.Params) {
		v.Open(c, p, at, 0)
		v.Settle(at, cost, truth, debt)
	}
	if m.exact != nil {
		settle(m.exact, &w.exactLimit)
	}
	settle(m.large, &w.largeLimit)
	for i, s := range m.plain {
		if s.took {
			settle(s.Count, &w.steps[i].Params)
		}
	}
	for i, s := range m.wide {
		if s.took {
			settle(s.Count, &w.steps[w.sliceless+i].Params)
		}
	}
}

// raise is called before a settlement that adds units. It creates the steps whose capacity the
// settlement may exceed.
func (m *measure) raise(w *window, at, units int64) {
	var v algorithm.View
	v.Open(m.large, &w.largeLimit, at, 0)
	most := w.maxFor(v.Used()+units) + 1
	if w.Burst > 1 {
		most += m.need.large // the level of a step's meter is at most need.large
	}
	plain, wide := len(m.plain), len(m.wide)
	if m.exact != nil {
		m.plain = m.climb(m.plain, w, 0, w.sliceless, most, 0, m.exact)
	}
	m.wide = m.climb(m.wide, w, w.sliceless, len(w.steps), most, 0, m.large)
	for i := plain; i < len(m.plain); i++ {
		m.plain[i].took = true
	}
	for i := wide; i < len(m.wide); i++ {
		m.wide[i].took = true
	}
}

// maxFor returns the smallest maximum at which the capacity of a limit covers the used units.
func (w *window) maxFor(used int64) int64 { return (used + w.Burst - 1) / w.Burst }
