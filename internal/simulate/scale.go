package simulate

import (
	"slices"

	"github.com/stint-limiter/stint"
)

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

// index returns the index of the smallest round number that is at least n, or the last index.
func (s scale) index(n int64) int {
	i, _ := slices.BinarySearch(s, n)
	return min(i, len(s)-1)
}
