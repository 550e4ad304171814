package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

// load is what one sample of a limiter over Redis measured.
type load struct {
	perSecond float64 // decisions
	cpu       float64 // of Redis, µs per decision
	latency   []time.Duration
	allowed   float64 // share of decisions
}

// quantile returns a latency in microseconds; the latencies are sorted.
func (l load) quantile(q float64) float64 {
	if len(l.latency) == 0 {
		return 0
	}
	at := min(int(q*float64(len(l.latency))), len(l.latency)-1)
	return float64(l.latency[at].Nanoseconds()) / 1000
}

// press lets callers ask in a loop, each as soon as it was answered.
func press(ctx context.Context, server *redisServer, d redisDecider, walkers []*walker, length time.Duration) (load, error) {
	var (
		group   sync.WaitGroup
		mutex   sync.Mutex
		l       load
		allowed int
		failed  error
	)
	before, err := server.cpu(ctx)
	if err != nil {
		return load{}, err
	}
	start := time.Now()
	for _, w := range walkers {
		group.Go(func() {
			var took []time.Duration
			yes := 0
			var failure error
			for now := time.Now(); failure == nil && now.Sub(start) < length; {
				var ok bool
				ok, _, failure = d.allow(ctx, w.next(), 1)
				then := time.Now()
				took = append(took, then.Sub(now))
				now = then
				if ok {
					yes++
				}
			}
			mutex.Lock()
			defer mutex.Unlock()
			l.latency = append(l.latency, took...)
			allowed += yes
			failed = cmp.Or(failed, failure)
		})
	}
	group.Wait()
	elapsed := time.Since(start)
	if failed != nil {
		return load{}, failed
	}
	after, err := server.cpu(ctx)
	if err != nil {
		return load{}, err
	}
	n := float64(len(l.latency))
	l.perSecond = n / elapsed.Seconds()
	l.cpu = (after - before) * 1e6 / n
	l.allowed = float64(allowed) / n
	slices.Sort(l.latency)
	return l, nil
}

// workload is what the callers ask for.
type workload struct {
	name    string
	limit   stint.Limit
	keys    []string
	allowed bool
}

func workloads() []workload {
	keys := subjectKeys(manyKeys)
	return []workload{
		{"hot key allowed", stint.PerSecond(1_000_000), keys[:1], true},
		{"hot key denied", stint.PerHour(exact), keys[:1], false},
		{"100,000 keys allowed", stint.PerMinute(exact), keys, true},
	}
}

func runRedis(ctx context.Context, s settings, r *report) error {
	server, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	for _, callers := range []int{64, 1} {
		if err := runThroughput(ctx, s, r, server, callers); err != nil {
			return err
		}
	}
	return runNaive(ctx, s, r, server)
}

// runThroughput compares decisions a second, one workload after the other.
func runThroughput(ctx context.Context, s settings, r *report, server *redisServer, callers int) error {
	length := pick(s, 400*time.Millisecond, 200*time.Millisecond)
	var rates, cpus, slow [][]string
	for _, w := range workloads() {
		if err := server.do(ctx, "FLUSHALL").Error(); err != nil {
			return err
		}
		loads := make([][]load, len(redisPeers))
		var samples []func() (float64, error)
		for i, peer := range redisPeers {
			d, err := peer.open(ctx, server.addr, callers, w.limit)
			if err != nil {
				return fmt.Errorf("%s: %w", peer.name, err)
			}
			defer d.close()
			walkers := pattern{w.keys, 1}.walkers(callers)
			for n := int64(0); !w.allowed && n < w.limit.Max; n++ {
				if _, _, err := d.allow(ctx, w.keys[0], 1); err != nil {
					return fmt.Errorf("%s: %w", peer.name, err)
				}
			}
			samples = append(samples, func() (float64, error) {
				l, err := press(ctx, server, d, walkers, length)
				if err != nil {
					return 0, fmt.Errorf("%s: %w", peer.name, err)
				}
				limits := peer.name != floor
				if limits && (w.allowed && l.allowed < 0.99 || !w.allowed && l.allowed > 0.01) {
					return 0, fmt.Errorf("%s: %s allowed a share of %.3f", w.name, peer.name, l.allowed)
				}
				loads[i] = append(loads[i], l)
				return l.perSecond, nil
			})
		}
		all, err := alternate(ctx, s.rounds, samples...)
		if err != nil {
			return err
		}
		rate, cpu, late := []string{w.name}, []string{w.name}, []string{w.name}
		for i, perSecond := range all {
			rate = append(rate, fmt.Sprintf("%s ±%.0f%%", thousands(int64(perSecond.median())), 100*perSecond.spread()))
			cpu = append(cpu, number(over(loads[i], func(l load) float64 { return l.cpu }).median()))
			late = append(late, number(over(loads[i], func(l load) float64 { return l.quantile(0.5) }).median())+", "+
				number(over(loads[i], func(l load) float64 { return l.quantile(0.99) }).median()))
		}
		for i, peer := range redisPeers[1:3] {
			if callers == 1 {
				break // for information: every contender waits for the same round trip
			}
			r.bar(fmt.Sprintf("redis: %s, %s, time per decision to %s", w.name, plural(callers, "caller"), peer.name),
				all[i+1].median()/all[0].median(), 1, "×")
		}
		rates, cpus, slow = append(rates, rate), append(cpus, cpu), append(slow, late)
	}
	header, by := append([]string{""}, redisNames()...), plural(callers, "caller")
	r.heading("Redis, decisions a second, "+by, "One process, one server, plain stores.")
	r.table(header, rates)
	r.heading("Redis, processor time of the server, µs per decision, "+by, "")
	r.table(header, cpus)
	r.heading("Redis, latency p50 and p99, µs, "+by, "")
	r.table(header, slow)
	return nil
}

func over(loads []load, value func(load) float64) series {
	var s series
	for _, l := range loads {
		s = append(s, value(l))
	}
	return s
}

// runNaive compares one script call with the four commands that it replaces, on
// the same host and over a network of two milliseconds.
func runNaive(ctx context.Context, s settings, r *report, server *redisServer) error {
	network, err := startDelayed(server.addr, 2*time.Millisecond)
	if err != nil {
		return err
	}
	defer network.Close()
	r.heading("Redis, one decision beside the naive sequence, µs", "One caller, 1,000 subjects in turn, median. "+
		"The sequence is ZREMRANGEBYSCORE, ZADD, EXPIRE, ZCARD: four round trips through the same client.")
	var lines [][]string
	for _, c := range []struct{ name, addr string }{
		{"same host", server.addr},
		{"2 ms round trip", network.addr()},
	} {
		all, err := compareNaive(ctx, s, server, c.addr)
		if err != nil {
			return err
		}
		ratio := all[0].median() / all[1].median()
		lines = append(lines, []string{c.name, plusMinus(all[0]), plusMinus(all[1]), fmt.Sprintf("%.3f", ratio)})
		r.bar("redis: one decision to the naive sequence, "+c.name, ratio, 0.25, "×")
	}
	r.table([]string{"", "stint", "naive", "ratio"}, lines)
	return nil
}

// compareNaive returns the median latencies of stint and of the sequence.
func compareNaive(ctx context.Context, s settings, server *redisServer, addr string) ([]series, error) {
	limit := stint.PerMinute(exact)
	ours, err := openRedisStint(ctx, addr, limit)
	if err != nil {
		return nil, err
	}
	defer ours.close()
	theirs, err := openNaive(ctx, addr, limit)
	if err != nil {
		return nil, err
	}
	defer theirs.close()
	var samples []func() (float64, error)
	for _, d := range []redisDecider{ours, theirs} {
		walkers := pattern{subjectKeys(1000), 1}.walkers(1)
		samples = append(samples, func() (float64, error) {
			l, err := press(ctx, server, d, walkers, pick(s, 400*time.Millisecond, 200*time.Millisecond))
			return l.quantile(0.5), err
		})
	}
	return alternate(ctx, s.rounds, samples...)
}
