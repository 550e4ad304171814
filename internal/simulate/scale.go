package simulate

import (
	"sort"

	"github.com/stint-limiter/stint"
)

// largestMax is the largest maximum that is measured or recommended. It is valid with the largest
// burst.
const largestMax = stint.MaxUnits >> 7

// scale is the round numbers that people choose for limits, in ascending order: 1, 2, 3, 4, 5, 6,
// 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120 and so on, up to largestMax.
type scale struct {
	numbers []int64
	small   [1024]uint8 // the index of each smaller number: most counts are small
}

func newScale() *scale {
	s := &scale{numbers: []int64{1, 2, 3, 4, 5, 6, 8}}
	for ten := int64(10); ten < largestMax; ten *= 10 {
		for _, tenths := range []int64{10, 12, 15, 20, 25, 30, 40, 50, 60, 80} {
			if n := ten / 10 * tenths; n < largestMax {
				s.numbers = append(s.numbers, n)
			}
		}
	}
	s.numbers = append(s.numbers, largestMax)
	for n := range s.small {
		s.small[n] = uint8(s.search(int64(n)))
	}
	return s
}

// index returns the index of the smallest round number that is at least n, or the last index.
func (s *scale) index(n int64) int {
	if n < int64(len(s.small)) {
		return int(s.small[n])
	}
	return s.search(n)
}

func (s *scale) search(n int64) int {
	return min(sort.Search(len(s.numbers), func(i int) bool { return s.numbers[i] >= n }), len(s.numbers)-1)
}
