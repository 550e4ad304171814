package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
)

// growthTick is the pace at which subjects ask here; see drive.
const growthTick = 2500 * time.Microsecond

// runGrowth shows how the cost of a decision grows with what is limited.
func runGrowth(ctx context.Context, s contest.Settings, r *contest.Report) error {
	server, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	if err := growLimit(ctx, s, r, server); err != nil {
		return err
	}
	if err := growSubjects(ctx, s, r); err != nil {
		return err
	}
	return growLimits(ctx, s, r, server)
}

// perWindow is by how many requests a window of a limit is filled, and what each costs: one unit up
// to 1,000 of them.
func perWindow(limit int64) (requests, cost int64) {
	requests = min(limit, 1000)
	return requests * scriptLive / 100, limit / requests
}

// growLimit raises the limit. Windows are kept nine tenths full, with requests entering and leaving
// all the time.
func growLimit(ctx context.Context, s contest.Settings, r *contest.Report, server *redisServer) error {
	r.Heading("Growth with the limit", fmt.Sprintf("Windows nine tenths full. Memory: 1,000 subjects in turn, ns. Script: %d subjects, µs.", scriptSubjects))
	limits := []int64{10, 100, 1000, 10_000, 100_000, 1_000_000}
	var memorySamples, scriptSamples []func() (float64, error)
	for _, limit := range limits {
		requests, cost := perWindow(limit)
		d, err := openSteady(limit, requests, cost)
		if err != nil {
			return err
		}
		defer d.close()
		walkers := pattern{subjectKeys(1000), 1}.walkers(1)
		memorySamples = append(memorySamples, func() (float64, error) {
			// A window goes by first, so that requests leave it as they enter.
			if _, err := measure(d, walkers, int(requests)*1000); err != nil {
				return 0, err
			}
			c, err := measure(d, walkers, contest.Pick(s, 500_000, 100_000))
			return c.nanoseconds, err
		})
		windows := []stint.Limit{stint.Per(limit, time.Duration(requests)*growthTick)}
		over, err := openRedisStint(ctx, server.addr, windows...)
		if err != nil {
			return err
		}
		defer over.close()
		t := &timed{decider: over, limits: windows, load: driven{subjectKeys(scriptSubjects), growthTick, cost}}
		scriptSamples = append(scriptSamples, func() (float64, error) {
			return t.sample(ctx, server, contest.Pick(s, 200, 80))
		})
	}
	rounds := contest.Pick(s, 3, 1)
	inMemory, err := alternate(ctx, rounds, memorySamples...)
	if err != nil {
		return err
	}
	inRedis, err := alternate(ctx, rounds, scriptSamples...)
	if err != nil {
		return err
	}
	var lines [][]string
	for i, limit := range limits {
		lines = append(lines, []string{contest.Count(limit), plusMinus(inMemory[i]), plusMinus(inRedis[i])})
	}
	r.Table([]string{"limit", "memory", "script"}, lines)
	return nil
}

// openSteady is stint in memory with a window of such a length that, at the speed of this machine,
// 1,000 subjects asking in turn keep it nine tenths full.
func openSteady(limit, requests, cost int64) (decider, error) {
	open := func(l stint.Limit) (decider, error) {
		lim, closer, err := openStintLimiter(l)
		if err != nil {
			return decider{}, err
		}
		ctx := context.Background()
		return decider{func(key string) (bool, error) {
			d, err := lim.AllowN(ctx, key, cost)
			return d.Allowed, err
		}, closer}, nil
	}
	trial, err := open(stint.PerMinute(stint.MaxUnits))
	if err != nil {
		return decider{}, err
	}
	defer trial.close()
	c, err := measure(trial, pattern{subjectKeys(1000), 1}.walkers(1), 200_000)
	if err != nil {
		return decider{}, err
	}
	window := time.Duration(c.nanoseconds * 1000 * float64(requests)).Truncate(time.Microsecond)
	return open(stint.Per(limit, max(window, stint.MinWindow)))
}

// growSubjects raises the number of subjects in the memory store.
func growSubjects(ctx context.Context, s contest.Settings, r *contest.Report) error {
	r.Heading("Growth with the subjects", "Memory store, in turn, allowed, ns per decision.")
	counts := []int{1, 10, 100, 1000, 10_000, 100_000, 1_000_000}
	keys := subjectKeys(counts[len(counts)-1])
	var samples []func() (float64, error)
	for _, n := range counts {
		d, err := openStint(stint.PerMinute(huge))
		if err != nil {
			return err
		}
		defer d.close()
		if err := d.fill(keys[:n], 1); err != nil {
			return err
		}
		walkers := pattern{keys[:n], 1}.walkers(1)
		samples = append(samples, func() (float64, error) {
			c, err := measure(d, walkers, contest.Pick(s, 1_000_000, 200_000))
			return c.nanoseconds, err
		})
	}
	all, err := alternate(ctx, contest.Pick(s, 5, 3), samples...)
	if err != nil {
		return err
	}
	var lines [][]string
	for i, n := range counts {
		lines = append(lines, []string{contest.Count(int64(n)), plusMinus(all[i])})
	}
	r.Table([]string{"subjects", "memory"}, lines)
	return nil
}

// growLimits raises the number of limits on one subject.
func growLimits(ctx context.Context, s contest.Settings, r *contest.Report, server *redisServer) error {
	r.Heading("Growth with the limits per subject", "Memory: hot key, allowed, ns. Script: windows of 100, about 90 live, µs.")
	var memorySamples, scriptSamples []func() (float64, error)
	counts := []int{1, 2, 3, 4, 6, 8}
	for _, n := range counts {
		var limits []stint.Limit
		for i := range n {
			limits = append(limits, stint.Per(huge, time.Minute<<i))
		}
		d, err := openStint(limits...)
		if err != nil {
			return err
		}
		defer d.close()
		walkers := pattern{subjectKeys(1), 1}.walkers(1)
		memorySamples = append(memorySamples, func() (float64, error) {
			c, err := measure(d, walkers, contest.Pick(s, 500_000, 100_000))
			return c.nanoseconds, err
		})
		windows := scriptWindows(n, growthTick)
		over, err := openRedisStint(ctx, server.addr, windows...)
		if err != nil {
			return err
		}
		defer over.close()
		t := &timed{decider: over, limits: windows, load: driven{subjectKeys(scriptSubjects), growthTick, 1}}
		scriptSamples = append(scriptSamples, func() (float64, error) {
			return t.sample(ctx, server, contest.Pick(s, 200, 80))
		})
	}
	inMemory, err := alternate(ctx, contest.Pick(s, 5, 3), memorySamples...)
	if err != nil {
		return err
	}
	inRedis, err := alternate(ctx, contest.Pick(s, 3, 2), scriptSamples...)
	if err != nil {
		return err
	}
	var lines [][]string
	for i, n := range counts {
		lines = append(lines, []string{fmt.Sprint(n), plusMinus(inMemory[i]),
			contest.Number(inMemory[i].Median() / inMemory[0].Median()),
			plusMinus(inRedis[i]), contest.Number(inRedis[i].Median() / inRedis[0].Median())})
	}
	r.Table([]string{"limits", "memory", "to one", "script", "to one"}, lines)
	return nil
}
