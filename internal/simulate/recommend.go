package simulate

import (
	"math"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// recommend returns a recommendation for each window of each rule. For each of the given shares,
// the recommendation contains the smallest limit that leaves that share of the subjects untouched.
func (r *recommender) recommend(shares []float64) []Recommendation {
	for _, needs := range r.subjects {
		for _, n := range *needs {
			n.window.large = append(n.window.large, n.large)
			if !n.exceeded {
				n.window.exact = append(n.window.exact, n.exact)
			}
		}
	}
	list := []Recommendation{}
	for _, rule := range r.rules {
		for _, w := range slices.Concat(rule.windows...) {
			slices.Sort(w.exact)
			slices.Sort(w.large)
			list = append(list, w.recommend(r.scale, shares))
		}
	}
	return list
}

func (w *window) recommend(scale scale, shares []float64) Recommendation {
	r := w.Recommendation
	r.Subjects = int64(len(w.large))
	r.Choices, r.Curve = []Choice{}, []Point{}
	if len(w.large) == 0 {
		return r
	}
	for _, share := range shares {
		wanted := rank(len(w.large), share)
		exact := w.smallest(wanted)
		index := scale.index(exact)
		for w.untouched(scale[index]) < wanted && index < len(scale)-1 {
			index++ // a limit with slices may have to be larger than one without
		}
		r.Choices = append(r.Choices, Choice{
			Share: math.Round(share*1e9) / 1e9, Exact: w.Limit(exact), Limit: w.Limit(scale[index]),
			Affected: w.point(scale, index),
		})
	}
	least, most := w.large[0], w.large[len(w.large)-1]
	if len(w.exact) > 0 {
		least = w.exact[0]
	}
	for index := scale.index(least); index < len(scale); index++ {
		p := w.point(scale, index)
		r.Curve = append(r.Curve, p)
		if p.Subjects == 0 && most <= max(p.Max, w.smallestSliced()) {
			break // no larger limit affects any subject, with or without slices
		}
	}
	return r
}

func (w *window) sliced(max int64) bool { return !w.isCalendar() && max*w.Burst > stint.Resolution }

// smallestSliced returns the smallest maximum of a limit with slices.
func (w *window) smallestSliced() int64 { return stint.Resolution/w.Burst + 1 }

// untouched returns the number of subjects that a limit with this maximum never denies.
func (w *window) untouched(max int64) int {
	sorted := w.exact
	if w.sliced(max) {
		sorted = w.large
	}
	n, _ := slices.BinarySearch(sorted, max+1)
	return n
}

// smallest returns the smallest maximum under which at least the wanted number of subjects are
// never denied.
func (w *window) smallest(wanted int) int64 {
	if wanted <= len(w.exact) {
		if max := w.exact[wanted-1]; !w.sliced(max) {
			return max
		}
	}
	return min(max(w.large[wanted-1], w.smallestSliced()), largestMax)
}

func (w *window) point(scale scale, index int) Point {
	return Point{
		Max:      scale[index],
		Subjects: int64(len(w.large) - w.untouched(scale[index])),
		Requests: w.denied[index],
	}
}

func (r *Recommendation) isCalendar() bool {
	return r.Configured != nil && r.Configured.Algorithm == stint.AlgorithmCalendar
}

// Limit returns a limit with r's window and burst and the given maximum. If the burst cannot be
// counted exactly with that maximum, Limit uses the next larger maximum that allows it.
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

// largestMax is the largest maximum that is measured or recommended. It is valid even with the
// largest burst.
const largestMax = stint.MaxUnits >> 7

// scale holds the usual round numbers for limits, in ascending order: 1, 2, 3, 4, 5, 6, 8, 10, 12,
// 15, 20, 25, 30, 40, 50, 60, 80, 100, 120 and so on, up to largestMax.
type scale []int64

func newScale() scale {
	s := scale{1, 2, 3, 4, 5, 6, 8}
	for ten := int64(10); ten < largestMax; ten *= 10 {
		for _, tenths := range []int64{10, 12, 15, 20, 25, 30, 40, 50, 60, 80} {
			if n := ten / 10 * tenths; n < largestMax {
				s = append(s, n)
			}
		}
	}
	return append(s, largestMax)
}

// index returns the index of the smallest round number that is at least n, or the last index if
// there is none.
func (s scale) index(n int64) int {
	i, _ := slices.BinarySearch(s, n)
	return min(i, len(s)-1)
}
