package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
)

// load is what one sample of a limiter over Redis measured.
type load struct {
	decisions float64
	perSecond float64
	cpu       float64 // of Redis, µs per decision
	latency   []time.Duration
	allowed   float64 // share of decisions
	used      float64 // units in the first window, on average
}

// quantile returns a latency in microseconds; the latencies are sorted.
func (l load) quantile(q float64) float64 { return contest.Quantile(l.latency, q).Seconds() * 1e6 }

// timedOne is of how many decisions one is timed.
const timedOne = 8

// pressTime is how long a sample takes.
func pressTime(s contest.Settings) time.Duration {
	return contest.Pick(s, 400*time.Millisecond, 200*time.Millisecond)
}

// press lets callers ask in a loop, each as soon as it was answered.
func press(ctx context.Context, server *redisServer, d redisDecider, walkers []*walker, length time.Duration) load {
	var (
		group              sync.WaitGroup
		mutex              sync.Mutex
		l                  load
		decisions, allowed int
		used               int64
		failed             error
	)
	before := server.cpu(ctx)
	start := time.Now()
	for _, w := range walkers {
		group.Go(func() {
			var took []time.Duration
			n, yes, sum := 0, 0, int64(0)
			var failure error
			for now := time.Now(); failure == nil && now.Sub(start) < length; {
				var ok bool
				var units int64
				// One in eight is timed: for those that answer from memory looking at the clock
				// costs as much as the answer.
				for range timedOne - 1 {
					if ok, units, failure = d.allow(ctx, w.next(), 1); failure != nil {
						break
					}
					n++
					sum += units
					if ok {
						yes++
					}
				}
				now = time.Now()
				if ok, units, failure = d.allow(ctx, w.next(), 1); ok {
					yes++
				}
				n++
				sum += units
				then := time.Now()
				took = append(took, then.Sub(now))
				now = then
			}
			mutex.Lock()
			defer mutex.Unlock()
			l.latency = append(l.latency, took...)
			decisions += n
			allowed += yes
			used += sum
			failed = cmp.Or(failed, failure)
		})
	}
	group.Wait()
	elapsed := time.Since(start)
	if failed != nil {
		contest.Failf("%s: %w", d.name, failed)
	}
	after := server.cpu(ctx)
	n := float64(decisions)
	l.decisions = n
	l.perSecond = n / elapsed.Seconds()
	l.cpu = (after - before) * 1e6 / n
	l.allowed = float64(allowed) / n
	l.used = float64(used) / n
	slices.Sort(l.latency)
	return l
}

// workload is what the callers ask for.
type workload struct {
	name    string
	limits  []stint.Limit
	keys    []string
	allowed bool
	// lead is how many times the rate of the fastest peer stint wants at 64 callers, leadMany at
	// 256, and cpu how much of its server's processor time per decision; 0 is no bar.
	lead, leadMany, cpu float64
}

// thrice asks a contender that knows one window for three, one after the other.
func thrice(d redisDecider) redisDecider {
	one := d.allow
	d.allow = func(ctx context.Context, key string, cost int64) (ok bool, used int64, err error) {
		for _, window := range []string{"", ":hour", ":day"} {
			if ok, used, err = one(ctx, key+window, cost); !ok || err != nil {
				break
			}
		}
		return ok, used, err
	}
	return d
}

// warmUp is how long contenders are asked before a row is measured: connections are made as they
// are needed.
const warmUp = 200 * time.Millisecond

func workloads() []workload {
	keys := subjectKeys(manyKeys)
	hot, many := keys[:1], keys
	minute := stint.PerMinute(exact)
	return []workload{
		{"hot key allowed", []stint.Limit{stint.PerSecond(10_000_000)}, hot, true, 3.5, 6, 0},
		{"hot key denied", []stint.Limit{stint.PerHour(exact)}, hot, false, 50, 50, 0},
		{"100,000 keys allowed", []stint.Limit{minute}, many, true, 1.3, 1.3, 0.6},
		{"the same, three windows",
			[]stint.Limit{minute, stint.PerHour(10 * exact), stint.PerDay(100 * exact)}, many, true, 2.5, 2.5, 0},
		{"hot key, stint leasing", []stint.Limit{stint.PerSecond(100_000_000).WithLease()}, hot, true, 50, 50, 0},
	}
}

func runRedis(ctx context.Context, s contest.Settings, r *contest.Report) {
	server := startRedis(ctx)
	defer server.Close()
	for _, callers := range []int{1, 16, 64, 256} {
		runThroughput(ctx, s, r, server, callers)
	}
	runNaive(ctx, s, r, server)
}

// runThroughput compares decisions a second, one workload after the other.
func runThroughput(ctx context.Context, s contest.Settings, r *contest.Report, server *redisServer, callers int) {
	var rates, cpus, slow [][]string
	for _, w := range workloads() {
		loads := compete(ctx, s, server, w, callers)
		rate, cpu, late := []string{w.name}, []string{w.name}, []string{w.name}
		for _, l := range loads {
			perSecond := over(l, func(l load) float64 { return l.perSecond })
			rate = append(rate, fmt.Sprintf("%s ±%.0f%%", contest.Count(int64(perSecond.Median())),
				100*perSecond.Spread()))
			cpu = append(cpu, contest.Number(over(l, func(l load) float64 { return l.cpu }).Median()))
			late = append(late, contest.Number(over(l, func(l load) float64 { return l.quantile(0.5) }).Median())+", "+
				contest.Number(over(l, func(l load) float64 { return l.quantile(0.99) }).Median()))
		}
		rates, cpus, slow = append(rates, rate), append(cpus, cpu), append(slow, late)
		bars(r, w, callers, loads)
	}
	header, by := append([]string{""}, redisNames()...), plural(callers, "caller")
	r.Heading("Redis, decisions a second, "+by, "One process, one server. All but stint know one window, and are asked three times for three; those without leases do as above.")
	r.Table(header, rates)
	r.Heading("Redis, processor time of the server, µs per decision, "+by, "")
	r.Table(header, cpus)
	r.Heading("Redis, latency p50 and p99, µs, "+by, "")
	r.Table(header, slow)
}

// compete lets all contenders do a workload in turn.
func compete(ctx context.Context, s contest.Settings, server *redisServer, w workload, callers int) [][]load {
	contest.OK(server.do(ctx, "FLUSHALL").Error())
	loads := make([][]load, len(redisPeers))
	var samples []func() float64
	for i, peer := range redisPeers {
		d := peer.connect(ctx, server.addr, callers, w.limits...)
		defer d.close()
		if i >= firstPeer && len(w.limits) > 1 {
			d = thrice(d)
		}
		walkers := pattern{w.keys, 1}.walkers(callers)
		press(ctx, server, d, walkers, warmUp)
		for n := int64(0); !w.allowed && n < w.limits[0].Max; n++ {
			_, _, err := d.allow(ctx, w.keys[0], 1)
			contest.OK(err)
		}
		samples = append(samples, func() float64 {
			l := press(ctx, server, d, walkers, pressTime(s))
			limits := peer.name != floor
			// A machine that stands still for a moment has stint fall back: no more than that.
			if limits && (w.allowed && l.allowed < 0.95 || !w.allowed && l.allowed > 0.01) {
				contest.Failf("%s: %s allowed a share of %.3f", w.name, peer.name, l.allowed)
			}
			loads[i] = append(loads[i], l)
			return l.perSecond
		})
	}
	alternate(ctx, min(s.Rounds, 5), samples...)
	return loads
}

// bars holds a workload's figures against what stint wants of itself.
func bars(r *contest.Report, w workload, callers int, loads [][]load) {
	rate := func(i int) float64 { return over(loads[i], func(l load) float64 { return l.perSecond }).Median() }
	cpu := func(i int) float64 { return over(loads[i], func(l load) float64 { return l.cpu }).Median() }
	latency := func(i int, q float64) float64 {
		return over(loads[i], func(l load) float64 { return l.quantile(q) }).Median()
	}
	late := func(i int) float64 { return latency(i, 0.99) }
	by := fmt.Sprintf("redis: %s, %s", w.name, plural(callers, "caller"))
	if callers == 1 {
		if w.name == workloads()[0].name {
			const rival = "redis_rate"
			i := slices.Index(redisNames(), rival)
			r.AtMost(1.15, "×", by+", p50 to "+rival).Judge(latency(stack, 0.5) / latency(i, 0.5))
		}
		if w.allowed && w.lead < 50 {
			r.AtMost(1.05, "×", by+", time per decision to the plain store").Judge(rate(plain) / rate(stack))
		}
	}
	if callers < 64 {
		return
	}
	fastest, soonest := firstPeer, firstPeer
	for i := firstPeer; i <= lastPeer; i++ {
		if rate(i) > rate(fastest) {
			fastest = i
		}
		if late(i) < late(soonest) {
			soonest = i
		}
	}
	lead := w.lead
	if callers > 64 {
		lead = w.leadMany
	}
	r.AtMost(1/lead, "×", by+", time per decision to the fastest peer").
		Judge(rate(fastest)/rate(stack), redisPeers[fastest].name)
	if w.cpu > 0 {
		r.AtMost(w.cpu, "×", by+", server time per decision to the fastest peer").
			Judge(cpu(stack)/cpu(fastest), redisPeers[fastest].name)
	}
	if callers == 64 {
		r.AtMost(1, "×", by+", p99 to the soonest peer").Judge(late(stack)/late(soonest), redisPeers[soonest].name)
		if len(w.limits) == 1 && w.lead < 50 {
			for i := firstPeer; i < lastPeer; i++ {
				r.AtMost(1, "×", fmt.Sprintf("%s, plain store, time per decision to %s", by, redisPeers[i].name)).Judge(
					rate(i) / rate(plain))
			}
		}
	}
}

func over(loads []load, value func(load) float64) contest.Series {
	var s contest.Series
	for _, l := range loads {
		s = append(s, value(l))
	}
	return s
}

// runNaive compares one script call with the four commands that it replaces, on the same host and
// over a network of two milliseconds.
func runNaive(ctx context.Context, s contest.Settings, r *contest.Report, server *redisServer) {
	network := startDelayed(server.addr, 2*time.Millisecond)
	defer network.Close()
	r.Heading("Redis, one decision beside the naive sequence, µs", "One caller, 1,000 subjects in turn, median. "+
		"The sequence is ZREMRANGEBYSCORE, ZADD, EXPIRE, ZCARD: four round trips through the same client.")
	var lines [][]string
	for _, c := range []struct{ name, addr string }{
		{"same host", server.addr},
		{"2 ms round trip", network.addr()},
	} {
		all := compareNaive(ctx, s, server, c.addr)
		ratio := all[0].Median() / all[1].Median()
		lines = append(lines, []string{c.name, plusMinus(all[0]), plusMinus(all[1]), fmt.Sprintf("%.3f", ratio)})
		r.AtMost(0.25, "×", "redis: one decision to the naive sequence, "+c.name).Judge(ratio)
	}
	r.Table([]string{"", "stint", "naive", "ratio"}, lines)
}

// compareNaive returns the median latencies of stint and of the sequence.
func compareNaive(ctx context.Context, s contest.Settings, server *redisServer, addr string) []contest.Series {
	limit := stint.PerMinute(exact)
	ours := openRedisStint(ctx, addr, limit)
	defer ours.close()
	theirs := openNaive(ctx, addr, limit)
	defer theirs.close()
	var samples []func() float64
	for _, d := range []redisDecider{ours, theirs} {
		walkers := pattern{subjectKeys(1000), 1}.walkers(1)
		samples = append(samples, func() float64 {
			return press(ctx, server, d, walkers, pressTime(s)).quantile(0.5)
		})
	}
	return alternate(ctx, s.Rounds, samples...)
}
