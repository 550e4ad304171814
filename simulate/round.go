package simulate

import (
	"slices"
	"sort"

	"github.com/stint-limiter/stint"
)

// roundNumbers returns the numbers that people choose for limits, in their order: 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20
// and so on.
func roundNumbers() []int64 {
	numbers := []int64{1, 2, 3, 4, 5, 6, 8}
	for ten := int64(10); ten < stint.MaxUnits; ten *= 10 {
		for _, tenths := range []int64{10, 12, 15, 20, 25, 30, 40, 50, 60, 80} {
			numbers = append(numbers, ten/10*tenths)
		}
	}
	last := slices.IndexFunc(numbers, func(n int64) bool { return n > largestMax })
	return append(numbers[:last:last], largestMax)
}

// largestMax is the largest limit that is measured or recommended: with the largest burst it is still one.
const largestMax = stint.MaxUnits >> 7

// scale finds the place of counts among the round numbers.
type scale struct {
	numbers []int64
	small   [1024]uint8 // places of counts below that
}

func newScale() *scale {
	s := &scale{numbers: roundNumbers()}
	for n := range s.small {
		s.small[n] = uint8(s.search(int64(n)))
	}
	return s
}

// place returns which round number is the smallest that is not below n.
func (s *scale) place(n int64) int {
	if n < int64(len(s.small)) {
		return int(s.small[n])
	}
	return s.search(n)
}

func (s *scale) search(n int64) int {
	return min(sort.Search(len(s.numbers), func(i int) bool { return s.numbers[i] >= n }), len(s.numbers)-1)
}
