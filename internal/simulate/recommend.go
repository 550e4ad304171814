package simulate

import (
	"math"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// recommend returns the limits that leave each share of the subjects untouched.
func (r *recommender) recommend(shares []float64) []Recommendation {
	list := []Recommendation{}
	sorted := r.sortedNeeds()
	for _, rule := range r.rules {
		for _, windows := range rule.windows {
			for _, w := range windows {
				list = append(list, w.recommend(sorted[w.number], r.scale, shares))
			}
		}
	}
	return list
}

// sortedNeeds holds the maximums that subjects need in one window, in ascending order. exact has
// the maximums of limits without slices; it leaves out subjects that exceed all such limits. large
// has the maximums of limits with slices.
type sortedNeeds struct{ exact, large []int64 }

// sortedNeeds returns the needs of all subjects by window number.
func (r *recommender) sortedNeeds() []*sortedNeeds {
	var all []*sortedNeeds
	for _, rule := range r.rules {
		for range slices.Concat(rule.windows...) {
			all = append(all, new(sortedNeeds))
		}
	}
	for _, needs := range r.subjects {
		for _, n := range *needs {
			sorted := all[n.window]
			sorted.large = append(sorted.large, n.large)
			if !n.exceeded {
				sorted.exact = append(sorted.exact, n.exact)
			}
		}
	}
	for _, sorted := range all {
		slices.Sort(sorted.exact)
		slices.Sort(sorted.large)
	}
	return all
}

func (w *window) recommend(needs *sortedNeeds, scale scale, shares []float64) Recommendation {
	r := w.Recommendation
	r.Subjects = int64(len(needs.large))
	r.Choices, r.Curve = []Choice{}, []Point{}
	if len(needs.large) == 0 {
		return r
	}
	for _, share := range shares {
		wanted := rank(len(needs.large), share)
		exact := w.smallest(needs, wanted)
		index := scale.index(exact)
		for w.untouched(needs, scale[index]) < wanted && index < len(scale)-1 {
			index++ // a limit with slices may have to be larger than one without
		}
		r.Choices = append(r.Choices, Choice{
			Share: math.Round(share*1e9) / 1e9, Exact: w.Limit(exact), Limit: w.Limit(scale[index]),
			Affected: w.point(needs, scale, index),
		})
	}
	least, most := needs.large[0], needs.large[len(needs.large)-1]
	if len(needs.exact) > 0 {
		least = needs.exact[0]
	}
	for index := scale.index(least); index < len(scale); index++ {
		p := w.point(needs, scale, index)
		r.Curve = append(r.Curve, p)
		if p.Subjects == 0 && most <= max(p.Max, w.smallestSliced()) {
			break // no larger limit affects a subject, even if it has slices
		}
	}
	return r
}

// sliced reports whether a limit with this maximum has slices.
func (w *window) sliced(max int64) bool { return !w.isCalendar() && max*w.Burst > stint.Resolution }

// smallestSliced returns the smallest maximum of a limit with slices.
func (w *window) smallestSliced() int64 { return stint.Resolution/w.Burst + 1 }

// untouched returns the number of subjects that a limit with this maximum never denies.
func (w *window) untouched(needs *sortedNeeds, max int64) int {
	sorted := needs.exact
	if w.sliced(max) {
		sorted = needs.large
	}
	n, _ := slices.BinarySearch(sorted, max+1)
	return n
}

// smallest returns the smallest maximum under which at least the wanted number of subjects are
// never denied.
func (w *window) smallest(needs *sortedNeeds, wanted int) int64 {
	if wanted <= len(needs.exact) {
		if max := needs.exact[wanted-1]; !w.sliced(max) {
			return max
		}
	}
	return min(max(needs.large[wanted-1], w.smallestSliced()), largestMax)
}

// point returns the effect of the limit at the given index of the scale.
func (w *window) point(needs *sortedNeeds, scale scale, index int) Point {
	return Point{
		Max:      scale[index],
		Subjects: int64(len(needs.large) - w.untouched(needs, scale[index])),
		Requests: w.denied[index],
	}
}

// isCalendar reports whether the limits count in calendar periods.
func (r *Recommendation) isCalendar() bool {
	return r.Configured != nil && r.Configured.Algorithm == stint.AlgorithmCalendar
}

// Limit returns the limit with the given maximum. If a burst of that limit cannot be counted
// exactly, Limit raises the maximum to the next one whose burst can be.
func (r *Recommendation) Limit(max int64) stint.Limit {
	if r.isCalendar() {
		l := *r.Configured
		l.Max = max
		return l
	}
	plain := stint.Per(max, time.Duration(r.Window)).WithName(r.Name)
	if r.Burst == 1 {
		return plain
	}
	l := plain
	for range 256 {
		if burst := l.BurstTimes(r.Burst); burst.Validate() == nil {
			return burst
		}
		l.Max++
	}
	return plain.BurstTimes(r.Burst)
}
