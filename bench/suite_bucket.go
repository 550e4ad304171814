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
	keys := subjectKeys(manyKeys)
	var lines [][]string
	for _, c := range []struct {
		what        string
		keys, order []string
	}{{"hot key", keys[:1], keys[:1]}, {"100,000 Zipf", keys, zipfKeys(keys)}} {
		all := compare(ctx, s, ops, c.keys, 1, c.order,
			openStint(stint.PerMinute(huge)), openStint(stint.TokenBucket(huge, huge, time.Minute)),
			openRate(huge, time.Minute), openThrottled(huge, time.Minute))
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
