package main

import (
	"context"
	"math"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

// sample is the median result of one contender.
type sample struct {
	rate     float64 // answers per second
	p50, p99 float64 // microseconds
}

// contender is a server to measure, with a function that calls it.
type contender struct {
	name string
	call contest.Call
}

// load describes the load for a row of a table.
type load struct {
	callers int
	length  time.Duration
	rounds  int
	allowed float64 // the share of answers that must be allowed
}

// measure drives the contenders in turn and returns the medians of each. The first round is shorter
// and does not count.
func (l load) measure(ctx context.Context, contenders []contender) []sample {
	all := make([][]contest.Calls, len(contenders))
	for round, which := range contest.Turns(1+l.rounds, len(contenders)) {
		c, length, counted := contenders[which], l.length, round > 0
		if !counted {
			length /= 2
		}
		v, err := contest.Drive(ctx, l.callers, 1, length, c.call)
		if err != nil {
			contest.Failf("%s: %w", c.name, err)
		}
		if counted && math.Abs(v.Allowed-l.allowed) > 0.01 {
			contest.Failf("%s: a share of %.3f was allowed; want %.0f", c.name, v.Allowed, l.allowed)
		}
		if counted {
			all[which] = append(all[which], v)
		}
	}
	medians := make([]sample, len(contenders))
	for i, samples := range all {
		medians[i] = medianOf(samples)
	}
	return medians
}

func medianOf(samples []contest.Calls) sample {
	middle := func(value func(contest.Calls) float64) float64 {
		var values contest.Series
		for _, c := range samples {
			values = append(values, value(c))
		}
		return values.Median()
	}
	quantile := func(q float64) float64 {
		return middle(func(c contest.Calls) float64 { return contest.Quantile(c.Took, q).Seconds() * 1e6 })
	}
	return sample{
		rate: middle(func(c contest.Calls) float64 { return c.Rate }), p50: quantile(0.5), p99: quantile(0.99),
	}
}
