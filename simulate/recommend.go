package simulate

import (
	"slices"

	"github.com/stint-limiter/stint"
)

// recommend returns the limits that leave the shares of subjects untouched.
func (d *demand) recommend(shares []float64) []Recommendation {
	list := []Recommendation{}
	busiest := d.busiest()
	for _, rule := range d.rules {
		for _, w := range rule.windows {
			list = append(list, w.recommend(busiest[w.number], d.scale, shares))
		}
	}
	return list
}

// crowd is which maximum the subjects that a window is about need, in order: as a limit without slices
// counts, where those who were over are left out at the end, and as one with slices does.
type crowd struct{ exact, large []int64 }

func (d *demand) busiest() []*crowd {
	var crowds []*crowd
	for _, rule := range d.rules {
		for range rule.windows {
			crowds = append(crowds, new(crowd))
		}
	}
	for _, subject := range d.needs {
		for _, list := range subject.rules {
			for i := range list {
				n, c := &list[i], crowds[list[i].window]
				if n.large == 0 {
					continue // it has only looked
				}
				c.large = append(c.large, n.large)
				if !n.over {
					c.exact = append(c.exact, n.exact)
				}
			}
		}
	}
	for _, c := range crowds {
		slices.Sort(c.exact)
		slices.Sort(c.large)
	}
	return crowds
}

func (w *window) recommend(c *crowd, scale *scale, shares []float64) Recommendation {
	r := w.Recommendation
	r.Subjects = int64(len(c.large))
	r.Choices, r.Curve = []Choice{}, []Point{}
	if len(c.large) == 0 {
		return r
	}
	for _, share := range shares {
		wanted := rank(len(c.large), share)
		exact := w.smallest(c, wanted)
		place := scale.place(exact)
		for w.untouched(c, scale.numbers[place]) < wanted && place < len(scale.numbers)-1 {
			place++ // a limit with slices may need to be larger than one without
		}
		r.Choices = append(r.Choices, Choice{
			Share: share, Exact: w.limit(exact), Limit: w.limit(scale.numbers[place]),
			Affected: w.point(c, scale, place),
		})
	}
	least := c.large[0]
	if len(c.exact) > 0 {
		least = c.exact[0]
	}
	most := c.large[len(c.large)-1]
	for place := scale.place(least); place < len(scale.numbers); place++ {
		p := w.point(c, scale, place)
		r.Curve = append(r.Curve, p)
		if p.Subjects == 0 && most <= max(p.Max, w.firstSliced()) {
			break // nor do larger ones, with slices, affect anybody
		}
	}
	return r
}

// sliced reports whether a limit with that maximum has slices.
func (w *window) sliced(max int64) bool { return max*w.Burst > stint.Resolution }

// firstSliced is the smallest maximum of a limit with slices.
func (w *window) firstSliced() int64 { return stint.Resolution/w.Burst + 1 }

// untouched is how many subjects a limit with that maximum never denies.
func (w *window) untouched(c *crowd, max int64) int {
	sorted := c.exact
	if w.sliced(max) {
		sorted = c.large
	}
	n, _ := slices.BinarySearch(sorted, max+1)
	return n
}

// smallest is the smallest maximum that never denies so many subjects.
func (w *window) smallest(c *crowd, wanted int) int64 {
	if wanted <= len(c.exact) {
		if max := c.exact[wanted-1]; !w.sliced(max) {
			return max
		}
	}
	return min(max(c.large[wanted-1], w.firstSliced()), largestMax)
}

// point is what the limit with a round maximum would do.
func (w *window) point(c *crowd, scale *scale, place int) Point {
	p := Point{Max: scale.numbers[place], Requests: w.Requests}
	counts := w.exact
	if w.sliced(p.Max) {
		counts = w.large
	}
	p.Subjects = int64(len(c.large) - w.untouched(c, p.Max))
	for _, n := range counts[:place+1] {
		p.Requests -= n
	}
	return p
}
