package histories

import "testing"

// shrink makes a fleet that fails as small as it can: it ends with the decision that was wrong, has
// only the requests that share a subject with that if they are enough, and only the faults without
// which it does not fail. Since the scheduler has a say too, each attempt is made a few times.
func (f *fleet) shrink(t *testing.T, o *outcomes) {
	fails := func(g *fleet) bool {
		for range 3 {
			if got := g.in(t); len(got.Wrong) > 0 {
				*o = got
				return true
			}
		}
		return false
	}
	try := func(change func(*fleet)) {
		g := *f
		if change(&g); fails(&g) {
			*f = g
		}
	}
	f.last = max(o.WorstAt, 1)
	try(func(g *fleet) { g.only = &o.Worst })
	left := map[int]bool{}
	for i := range f.plan().drawn {
		left[i] = true
	}
	for size := len(left); size > 0; size /= 2 {
		for from := 0; from < f.plan().drawn; from += size {
			try(func(g *fleet) {
				g.left = map[int]bool{}
				for i := range left {
					g.left[i] = left[i] && (i < from || i >= from+size)
				}
			})
			if f.left != nil {
				left = f.left
			}
		}
	}
}
