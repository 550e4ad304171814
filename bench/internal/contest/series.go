package contest

import (
	"iter"
	"slices"
	"time"
)

// Series is what one contender measured, a value per round.
type Series []float64

// Median is the middle value, or the mean of the middle two.
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

// Spread is half the distance between the quartiles, as a share of the median: how far a typical
// round lies from it.
func (s Series) Spread() float64 {
	m := s.Median()
	if m == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	n := len(sorted)
	return (sorted[n-1-n/4] - sorted[n/4]) / 2 / m
}

// Quantile is the time within which a share of sorted times lies, or 0 if there are none.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

// Turns yields the rounds, from 0, and in each of them every contender once. Each round begins with
// another one, so that none always follows the same neighbor, and whatever slows the machine for a
// while slows all of them.
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
