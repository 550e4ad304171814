package main

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

// sample is the result of one contender in one round.
type sample struct {
	answers  int     // total number; 0 in medians
	rate     float64 // answers per second
	p50, p99 float64 // microseconds
	allowed  float64 // share of the answers
}

// ask makes one call for a caller and reports whether it was allowed.
type ask func(ctx context.Context, caller int) (allowed bool, err error)

// drive makes concurrent callers call for the given time. Each caller makes its next call as soon
// as it has an answer, and makes at least one call.
func drive(ctx context.Context, callers int, length time.Duration, call ask) (sample, error) {
	type caller struct {
		took    []time.Duration
		allowed int
		err     error
	}
	all := make([]caller, callers)
	var group sync.WaitGroup
	start := time.Now()
	end := start.Add(length)
	for i := range all {
		group.Go(func() {
			c := &all[i]
			now := time.Now()
			for again := true; again; again = now.Before(end) && c.err == nil {
				began := now
				var ok bool
				ok, c.err = call(ctx, i)
				now = time.Now()
				c.took = append(c.took, now.Sub(began))
				if ok {
					c.allowed++
				}
			}
		})
	}
	group.Wait()
	seconds := time.Since(start).Seconds()
	var took []time.Duration
	var failed error
	allowed := 0
	for _, c := range all {
		took = append(took, c.took...)
		allowed += c.allowed
		failed = cmp.Or(failed, c.err)
	}
	if failed != nil {
		return sample{}, failed
	}
	slices.Sort(took)
	return sample{
		answers: len(took),
		rate:    float64(len(took)) / seconds,
		p50:     contest.Quantile(took, 0.5).Seconds() * 1e6,
		p99:     contest.Quantile(took, 0.99).Seconds() * 1e6,
		allowed: float64(allowed) / float64(len(took)),
	}, nil
}

// contender is a server to measure, with a function that calls it.
type contender struct {
	name string
	call ask
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
	all := make([][]sample, len(contenders))
	for round, which := range contest.Turns(1+l.rounds, len(contenders)) {
		c, length, counted := contenders[which], l.length, round > 0
		if !counted {
			length /= 2
		}
		v, err := drive(ctx, l.callers, length, c.call)
		if err != nil {
			contest.Failf("%s: %w", c.name, err)
		}
		if counted && math.Abs(v.allowed-l.allowed) > 0.01 {
			contest.Failf("%s: a share of %.3f was allowed; want %.0f", c.name, v.allowed, l.allowed)
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

func medianOf(samples []sample) sample {
	middle := func(field func(sample) float64) float64 {
		var values contest.Series
		for _, s := range samples {
			values = append(values, field(s))
		}
		return values.Median()
	}
	return sample{
		rate:    middle(func(s sample) float64 { return s.rate }),
		p50:     middle(func(s sample) float64 { return s.p50 }),
		p99:     middle(func(s sample) float64 { return s.p99 }),
		allowed: middle(func(s sample) float64 { return s.allowed }),
	}
}
