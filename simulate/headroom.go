package simulate

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// histogramSteps is into how many parts a capacity is divided for [Headroom.Histogram].
const histogramSteps = 10

// limitUses returns how much of each limit was used.
func (t *tally) limitUses() []LimitUse {
	uses := make([]LimitUse, len(t.limits))
	shares := make([][]float64, len(t.limits)) // of those who were never denied
	tops := make([]*top[busy], len(t.limits))
	for i := range t.limits {
		l := &t.limits[i]
		uses[i] = LimitUse{Policy: l.rule.Policy, Tier: l.rule.Tier, Costs: l.rule.Costs, Limit: *l.Limit, Busiest: []Busy{}}
		tops[i] = newTop(t.top, func(a, b busy) int {
			return cmp.Or(cmp.Compare(b.used, a.used), cmp.Compare(a.at, b.at), strings.Compare(a.name, b.name))
		})
	}
	for _, s := range t.table.named {
		for _, p := range s.peaks {
			uses[p.limit].Subjects++
			tops[p.limit].add(busy{s.name, p})
			if s.hits == nil {
				shares[p.limit] = append(shares[p.limit], share(p.used, t.limits[p.limit].Capacity()))
			}
		}
		if s.hits != nil {
			for _, b := range s.hits.by {
				uses[b.limit].Hit++
			}
		}
	}
	for i := range uses {
		uses[i].Headroom = headroom(shares[i])
		for _, b := range tops[i].list {
			uses[i].Busiest = append(uses[i].Busiest, Busy{b.name, b.used, share(b.used, uses[i].Limit.Capacity()), instant(b.at)})
		}
	}
	return uses
}

// busy is the busiest window of a subject.
type busy struct {
	name string
	peak
}

// share is what is used of a capacity; 1 if that is nothing.
func share(used, capacity int64) float64 {
	if capacity == 0 {
		return 1
	}
	return float64(used) / float64(capacity)
}

// headroom returns how shares are distributed. It sorts them.
func headroom(shares []float64) Headroom {
	h := Headroom{Subjects: int64(len(shares)), Histogram: make([]int64, histogramSteps)}
	if len(shares) == 0 {
		return h
	}
	slices.Sort(shares)
	h.P50, h.P90, h.P99, h.Max = quantile(shares, 0.5), quantile(shares, 0.9), quantile(shares, 0.99), shares[len(shares)-1]
	for _, s := range shares {
		step := int(math.Ceil(s*histogramSteps)) - 1
		h.Histogram[min(max(step, 0), histogramSteps-1)]++
	}
	return h
}

// quantile is the smallest of some sorted values, of which there is one at least, that a share of them does not exceed.
func quantile[T any](sorted []T, share float64) T {
	return sorted[rank(len(sorted), share)-1]
}

// rank is how many of n are at least a share of them: between 1 and n. A share that is meant to be a whole number of
// them is taken for that: 0.07 of 100 is 7, although its float64 is a little more.
func rank(n int, share float64) int {
	const slack = 1e-9
	return min(max(int(math.Ceil(share*float64(n)-slack)), 1), n)
}
