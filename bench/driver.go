package main

import (
	"context"
	"slices"
)

// series is what one contender measured, a value per round.
type series []float64

// median is the middle value, or the mean of the middle two.
func (s series) median() float64 {
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

func (s series) min() float64 { return slices.Min(s) }

// spread is half the distance between the quartiles, as a share of the median:
// how far a typical round lies from it.
func (s series) spread() float64 {
	m := s.median()
	if m == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	n := len(sorted)
	return (sorted[n-1-n/4] - sorted[n/4]) / 2 / m
}

// alternate runs every contender once per round and returns a series for each.
// Each round begins with another one, so that none always follows the same
// neighbour, and whatever slows the machine for a while slows all of them.
func alternate(ctx context.Context, rounds int, sample ...func() (float64, error)) ([]series, error) {
	all := make([]series, len(sample))
	for round := range rounds {
		for i := range sample {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			which := (round + i) % len(sample)
			v, err := sample[which]()
			if err != nil {
				return nil, err
			}
			all[which] = append(all[which], v)
		}
	}
	return all, nil
}

// fastest returns the index of the least median among all but the first.
func fastest(all []series) int {
	best := 1
	for i := 2; i < len(all); i++ {
		if all[i].median() < all[best].median() {
			best = i
		}
	}
	return best
}
