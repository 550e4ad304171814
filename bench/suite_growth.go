package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
)

// growthTick is the interval between the requests of a subject in this suite; see drive.
const growthTick = 2500 * time.Microsecond

// runGrowth shows how the cost of a decision grows with limits, subjects and limits per subject.
func runGrowth(ctx context.Context, s contest.Settings, r *contest.Report) {
	server := startRedis(ctx)
	defer server.Close()
	growLimit(ctx, s, r, server)
	growSubjects(ctx, s, r)
	growLimits(ctx, s, r, server)
}

// perWindow returns the number of requests that fill a window of a limit nine tenths full, and the
// cost of each: one unit for limits of up to 1,000.
func perWindow(limit int64) (requests, cost int64) {
	requests = min(limit, 1000)
	return requests * scriptLive / 100, limit / requests
}

// growLimit raises the limit. Windows stay nine tenths full, with requests entering and leaving all
// the time.
func growLimit(ctx context.Context, s contest.Settings, r *contest.Report, server *redisServer) {
	r.Heading("Growth with the limit", fmt.Sprintf("Windows nine tenths full. Memory: 1,000 subjects in turn, ns. Script: %d subjects, µs.", scriptSubjects))
	limits := []int64{10, 100, 1000, 10_000, 100_000, 1_000_000}
	var memorySamples, scriptSamples []func() float64
	for _, limit := range limits {
		requests, cost := perWindow(limit)
		d := openSteady(limit, requests, cost)
		defer d.close()
		walkers := pattern{subjectKeys(1000), 1}.walkers(1)
		memorySamples = append(memorySamples, func() float64 {
			// Let a window pass first, so that requests leave it as others enter.
			measure(d, walkers, int(requests)*1000)
			return measure(d, walkers, contest.Pick(s, 500_000, 100_000)).nanoseconds
		})
		windows := []stint.Limit{stint.Per(limit, time.Duration(requests)*growthTick)}
		over := openRedisStint(ctx, server.addr, windows...)
		defer over.close()
		t := &timed{decider: over, limits: windows, load: driven{subjectKeys(scriptSubjects), growthTick, cost}}
		scriptSamples = append(scriptSamples, func() float64 {
			return t.sample(ctx, server, contest.Pick(s, 200, 80))
		})
	}
	rounds := contest.Pick(s, 3, 1)
	inMemory := alternate(ctx, rounds, memorySamples...)
	inRedis := alternate(ctx, rounds, scriptSamples...)
	var lines [][]string
	for i, limit := range limits {
		lines = append(lines, []string{contest.Count(limit), plusMinus(inMemory[i]), plusMinus(inRedis[i])})
	}
	r.Table([]string{"limit", "memory", "script"}, lines)
}

// openSteady opens stint in memory with a window of such a length that, at the speed of this
// machine, requests for 1,000 subjects in turn keep it nine tenths full.
func openSteady(limit, requests, cost int64) decider {
	open := func(l stint.Limit) decider {
		lim, closer := openStintLimiter(l)
		ctx := context.Background()
		return decider{func(key string) (bool, error) {
			d, err := lim.AllowN(ctx, key, cost)
			return d.Allowed, err
		}, closer}
	}
	trial := open(stint.PerMinute(stint.MaxUnits))
	defer trial.close()
	c := measure(trial, pattern{subjectKeys(1000), 1}.walkers(1), 200_000)
	window := time.Duration(c.nanoseconds * 1000 * float64(requests)).Truncate(time.Microsecond)
	return open(stint.Per(limit, max(window, stint.MinWindow)))
}

// growSubjects raises the number of subjects in the memory store.
func growSubjects(ctx context.Context, s contest.Settings, r *contest.Report) {
	r.Heading("Growth with the subjects", "Memory store, in turn, allowed, ns per decision.")
	counts := []int{1, 10, 100, 1000, 10_000, 100_000, 1_000_000}
	keys := subjectKeys(counts[len(counts)-1])
	var samples []func() float64
	for _, n := range counts {
		d := openStint(stint.PerMinute(huge))
		defer d.close()
		d.fill(keys[:n], 1)
		samples = append(samples, d.timing(pattern{keys[:n], 1}, contest.Pick(s, 1_000_000, 200_000)))
	}
	all := alternate(ctx, contest.Pick(s, 5, 3), samples...)
	var lines [][]string
	for i, n := range counts {
		lines = append(lines, []string{contest.Count(int64(n)), plusMinus(all[i])})
	}
	r.Table([]string{"subjects", "memory"}, lines)
}

// growLimits raises the number of limits on one subject.
func growLimits(ctx context.Context, s contest.Settings, r *contest.Report, server *redisServer) {
	r.Heading("Growth with the limits per subject", "Memory: hot key, allowed, ns. Script: windows of 100, about 90 live, µs.")
	var memorySamples, scriptSamples []func() float64
	counts := []int{1, 2, 3, 4, 6, 8}
	for _, n := range counts {
		var limits []stint.Limit
		for i := range n {
			limits = append(limits, stint.Per(huge, time.Minute<<i))
		}
		d := openStint(limits...)
		defer d.close()
		memorySamples = append(memorySamples, d.timing(pattern{subjectKeys(1), 1}, contest.Pick(s, 500_000, 100_000)))
		windows := scriptWindows(n, growthTick)
		over := openRedisStint(ctx, server.addr, windows...)
		defer over.close()
		t := &timed{decider: over, limits: windows, load: driven{subjectKeys(scriptSubjects), growthTick, 1}}
		scriptSamples = append(scriptSamples, func() float64 {
			return t.sample(ctx, server, contest.Pick(s, 200, 80))
		})
	}
	inMemory := alternate(ctx, contest.Pick(s, 5, 3), memorySamples...)
	inRedis := alternate(ctx, contest.Pick(s, 3, 2), scriptSamples...)
	var lines [][]string
	for i, n := range counts {
		lines = append(lines, []string{fmt.Sprint(n), plusMinus(inMemory[i]),
			contest.Number(inMemory[i].Median() / inMemory[0].Median()),
			plusMinus(inRedis[i]), contest.Number(inRedis[i].Median() / inRedis[0].Median())})
	}
	r.Table([]string{"limits", "memory", "to one", "script", "to one"}, lines)
}
