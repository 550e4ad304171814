package main

import (
	"context"
	"fmt"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

// alternate makes the contenders take turns and returns the samples of each.
func alternate[T any](ctx context.Context, rounds int, sample ...func() T) [][]T {
	all := make([][]T, len(sample))
	for _, which := range contest.Turns(rounds, len(sample)) {
		contest.OK(ctx.Err())
		all[which] = append(all[which], sample[which]())
	}
	return all
}

// over applies value to each sample and returns the results.
func over[T any](samples []T, value func(T) float64) contest.Series {
	var s contest.Series
	for _, sample := range samples {
		s = append(s, value(sample))
	}
	return s
}

// ratios divides one series by another, round by round. It does not divide the medians of the series,
// because within seconds the speed of the machine changes by more than the contenders differ.
func ratios(above, below contest.Series) contest.Series {
	all := make(contest.Series, len(above))
	for i := range all {
		all[i] = above[i] / below[i]
	}
	return all
}

// fastest returns the index of the series with the smallest median. It ignores the first series,
// which is stint's.
func fastest(all []contest.Series) int {
	best := 1
	for i := 2; i < len(all); i++ {
		if all[i].Median() < all[best].Median() {
			best = i
		}
	}
	return best
}

// plusMinus formats a median and its spread.
func plusMinus(s contest.Series) string {
	return fmt.Sprintf("%s ±%.0f%%", contest.Number(s.Median()), 100*s.Spread())
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
