package main

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
)

// runBuckets compares the token bucket with the sliding window, and with the peers that are token
// buckets too, or GCRA, which is the same.
func runBuckets(ctx context.Context, s contest.Settings, r *contest.Report, ops int) error {
	r.Heading("Memory store, the token bucket, ns per decision", "Allowed, one goroutine. Ratios: the token bucket of "+
		"stint to its sliding window, and to the faster of x/time/rate and throttled.")
	open := []func() (decider, error){
		func() (decider, error) { return openStint(stint.PerMinute(huge)) },
		func() (decider, error) { return openStint(stint.TokenBucket(huge, huge, time.Minute)) },
		func() (decider, error) { return openRate(huge, time.Minute) },
		func() (decider, error) { return openThrottled(huge, time.Minute) },
	}
	keys := subjectKeys(manyKeys)
	var lines [][]string
	for _, c := range []struct {
		what string
		fill []string
		keys []string
	}{{"hot key", keys[:1], keys[:1]}, {"100,000 Zipf", keys, zipfKeys(keys)}} {
		var samples []func() (float64, error)
		for _, open := range open {
			d, err := open()
			if err != nil {
				return err
			}
			defer d.close()
			if err := d.fill(c.fill, 1); err != nil {
				return err
			}
			walkers := pattern{c.keys, 1}.walkers(1)
			samples = append(samples, func() (float64, error) {
				cost, err := measure(d, walkers, ops)
				return cost.nanoseconds, err
			})
		}
		all, err := alternate(ctx, s.Rounds, samples...)
		if err != nil {
			return err
		}
		bucket := all[1].Median()
		toSliding, toPeer := bucket/all[0].Median(), bucket/min(all[2].Median(), all[3].Median())
		r.AtMost(1.05, "×", "memory: token bucket, "+c.what+", to the sliding window").Judge(toSliding)
		line := []string{c.what}
		for _, times := range all {
			line = append(line, plusMinus(times))
		}
		lines = append(lines, append(line, contest.Number(toSliding), contest.Number(toPeer)))
	}
	r.Table([]string{"", "sliding", "bucket", "x/time/rate", "throttled", "to sliding", "to the peer"}, lines)
	return nil
}
