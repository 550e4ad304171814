package contest

import (
	"iter"
	"slices"
	"time"
)

// Series holds the measurements of one contender, a value per round.
type Series []float64

// Median returns the middle value, or the mean of the middle two.
func (s Series) Median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Spread returns half the distance between the quartiles, as a share of the median: how far a
// typical round is from the median.
func (s Series) Spread() float64 {
	m := s.Median()
	if m == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	n := len(sorted)
	return (sorted[n-1-n/4] - sorted[n/4]) / 2 / m
}

// Quantile returns the q-quantile of sorted times, or 0 if there are none.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

// Turns yields every contender once per round. Rounds and contenders are counted from 0. Each round
// begins with the next contender, so that none is always first. Because the contenders take turns,
// a temporary slowdown of the machine affects all of them.
func Turns(rounds, contenders int) iter.Seq2[int, int] {
	return func(yield func(round, contender int) bool) {
		for round := range rounds {
			for i := range contenders {
				if !yield(round, (round+i)%contenders) {
					return
				}
			}
		}
	}
}
