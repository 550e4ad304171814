package main

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
)

// runBuckets compares the token bucket with the sliding window, and with peers that are token
// buckets too, or GCRA, which is equivalent.
func runBuckets(ctx context.Context, s contest.Settings, r *contest.Report, ops int) {
	r.Heading("Memory store, the token bucket, ns per decision", "Allowed, one goroutine. Ratios: the token bucket of "+
		"stint to its sliding window, and to the faster of x/time/rate and throttled.")
	open := []func() decider{
		func() decider { return openStint(stint.PerMinute(huge)) },
		func() decider { return openStint(stint.TokenBucket(huge, huge, time.Minute)) },
		func() decider { return openRate(huge, time.Minute) },
		func() decider { return openThrottled(huge, time.Minute) },
	}
	keys := subjectKeys(manyKeys)
	var lines [][]string
	for _, c := range []struct {
		what string
		fill []string
		keys []string
	}{{"hot key", keys[:1], keys[:1]}, {"100,000 Zipf", keys, zipfKeys(keys)}} {
		var samples []func() float64
		for _, open := range open {
			d := open()
			defer d.close()
			d.fill(c.fill, 1)
			samples = append(samples, d.timing(pattern{c.keys, 1}, ops))
		}
		all := alternate(ctx, s.Rounds, samples...)
		bucket := all[1].Median()
		toSliding, toPeer := bucket/all[0].Median(), bucket/min(all[2].Median(), all[3].Median())
		r.AtMost(1.2, "×", "memory: token bucket, "+c.what+", to the sliding window").Judge(toSliding)
		line := []string{c.what}
		for _, times := range all {
			line = append(line, plusMinus(times))
		}
		lines = append(lines, append(line, contest.Number(toSliding), contest.Number(toPeer)))
	}
	r.Table([]string{"", "sliding", "bucket", "x/time/rate", "throttled", "to sliding", "to the peer"}, lines)
}
