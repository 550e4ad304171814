package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
)

// load is the result of one sample of a limiter over Redis.
type load struct {
	contest.Calls
	cpu  float64 // processor time of Redis, in µs per decision
	used float64 // units in the first window, on average
}

// quantile returns a latency in microseconds.
func (l load) quantile(q float64) float64 { return contest.Quantile(l.Took, q).Seconds() * 1e6 }

// timedOne means that one of every timedOne decisions is timed.
const timedOne = 8

// pressTime returns the duration of a sample.
func pressTime(s contest.Settings) time.Duration {
	return contest.Pick(s, 400*time.Millisecond, 200*time.Millisecond)
}

// press makes concurrent callers, one per walker, call in a loop.
func press(ctx context.Context, server *redisServer, d redisDecider, walkers []*walker, length time.Duration) load {
	for _, w := range walkers {
		w.used = 0
	}
	before := server.cpu(ctx)
	decide := func(ctx context.Context, caller int) (bool, error) {
		w := walkers[caller]
		ok, used, err := d.allow(ctx, w.next())
		w.used += used
		return ok, err
	}
	calls, err := contest.Drive(ctx, len(walkers), timedOne, length, decide)
	if err != nil {
		contest.Failf("%s: %w", d.name, err)
	}
	n, used := float64(calls.Count), int64(0)
	for _, w := range walkers {
		used += w.used
	}
	return load{Calls: calls, cpu: (server.cpu(ctx) - before) * 1e6 / n, used: float64(used) / n}
}

// workload describes what the callers request.
type workload struct {
	name    string
	limits  []stint.Limit
	keys    []string
	allowed bool
	bars    map[int]loadBars // by the number of callers
}

// loadBars holds the bars for stint relative to rueidislimiter, which uses the same client. A bar
// of 0 is not judged.
type loadBars struct {
	rate float64 // decisions per second, at least
	cpu  float64 // processor time of the server per decision, at most
	p50  float64 // median latency, at most
}

// thrice makes a contender that supports only one window decide on three, one after the other.
func thrice(d redisDecider) redisDecider {
	one := d.allow
	d.allow = func(ctx context.Context, key string) (ok bool, used int64, err error) {
		for _, window := range []string{"", ":hour", ":day"} {
			if ok, used, err = one(ctx, key+window); !ok || err != nil {
				break
			}
		}
		return ok, used, err
	}
	return d
}

// warmUp is the time for which contenders are called before a row is measured, because they open
// connections on demand.
const warmUp = 200 * time.Millisecond

func workloads() []workload {
	keys := subjectKeys(manyKeys)
	hot, many := keys[:1], keys
	minute := stint.PerMinute(exact)
	inMemory := map[int]loadBars{64: {rate: 50}, 256: {rate: 50}}
	return []workload{
		{"hot key allowed", []stint.Limit{stint.PerSecond(10_000_000)}, hot, true,
			map[int]loadBars{1: {p50: 1.3}, 64: {rate: 3.5}, 256: {rate: 5}}},
		{"hot key denied", []stint.Limit{stint.PerHour(exact)}, hot, false, inMemory},
		{"100,000 keys allowed", []stint.Limit{minute}, many, true,
			map[int]loadBars{1: {p50: 1.3}, 64: {rate: 1.25, cpu: 0.6}, 256: {rate: 1.25, cpu: 0.6}}},
		{"the same, three windows",
			[]stint.Limit{minute, stint.PerHour(10 * exact), stint.PerDay(100 * exact)}, many, true,
			map[int]loadBars{1: {p50: 0.5}, 64: {rate: 2.5}, 256: {rate: 2.5}}},
		{"hot key, stint leasing", []stint.Limit{stint.PerSecond(100_000_000).WithLease()}, hot, true, inMemory},
	}
}

// redisSuite compares stint with others over Redis, with a number of callers.
func redisSuite(callers int) contest.Suite {
	name := fmt.Sprintf("redis-%d", callers)
	return contest.Suite{Name: name, Run: func(ctx context.Context, s contest.Settings, r *contest.Report) {
		server := startRedis(ctx)
		defer server.Close()
		var rates, cpus, slow [][]string
		for _, w := range workloads() {
			loads := compete(ctx, s, server, w, callers)
			rate, cpu, late := []string{w.name}, []string{w.name}, []string{w.name}
			for _, l := range loads {
				rate = append(rate, counted(over(l, perSecond)))
				cpu = append(cpu, contest.Number(over(l, serverTime).Median()))
				late = append(late, contest.Number(over(l, p50).Median())+", "+contest.Number(over(l, p99).Median()))
			}
			rates, cpus, slow = append(rates, rate), append(cpus, cpu), append(slow, late)
			w.bars[callers].judge(r, name+": "+w.name, loads[stack], loads[rival])
		}
		header, by := append([]string{""}, redisNames()...), plural(callers, "caller")
		r.Heading("Redis, decisions a second, "+by, "One process, one server. All but stint support only one window, and are called three times for three windows. In the last row, only stint uses leases.")
		r.Table(header, rates)
		r.Heading("Redis, processor time of the server, µs per decision, "+by, "")
		r.Table(header, cpus)
		r.Heading("Redis, latency p50 and p99, µs, "+by, "")
		r.Table(header, slow)
	}}
}

// perSecond, serverTime, p50 and p99 return the values of a load that are compared.
func perSecond(l load) float64  { return l.Rate }
func serverTime(l load) float64 { return l.cpu }
func p50(l load) float64        { return l.quantile(0.5) }
func p99(l load) float64        { return l.quantile(0.99) }

// judge compares the median of the ratios of the rounds with each bar.
func (b loadBars) judge(r *contest.Report, name string, ours, theirs []load) {
	for _, bar := range []struct {
		what  string
		limit float64
		value func(load) float64
		add   func(float64, string, string) *contest.Bar
	}{
		{"decisions a second", b.rate, perSecond, r.AtLeast},
		{"server time per decision", b.cpu, serverTime, r.AtMost},
		{"p50", b.p50, p50, r.AtMost},
	} {
		if bar.limit > 0 {
			bar.add(bar.limit, "×", name+", "+bar.what+" to "+redisPeers[rival].name).
				Judge(ratios(over(ours, bar.value), over(theirs, bar.value)).Median())
		}
	}
}

// counted formats the median of counts and its spread.
func counted(s contest.Series) string {
	return fmt.Sprintf("%s ±%.0f%%", contest.Count(int64(s.Median())), 100*s.Spread())
}

// compete makes all contenders run a workload in turn.
func compete(ctx context.Context, s contest.Settings, server *redisServer, w workload, callers int) [][]load {
	contest.OK(server.do(ctx, "FLUSHALL").Error())
	var samples []func() load
	for i, peer := range redisPeers {
		d := peer.connect(ctx, server.addr, callers, w.limits...)
		defer d.close()
		if i >= firstPeer && len(w.limits) > 1 {
			d = thrice(d)
		}
		walkers := pattern{w.keys, 1}.walkers(callers)
		press(ctx, server, d, walkers, warmUp)
		for n := int64(0); !w.allowed && n < w.limits[0].Max; n++ {
			_, _, err := d.allow(ctx, w.keys[0])
			contest.OK(err)
		}
		samples = append(samples, func() load { return press(ctx, server, d, walkers, pressTime(s)) })
	}
	loads := alternate(ctx, s.Rounds, samples...)
	for i, peer := range redisPeers {
		// If the machine stalls for a moment, stint decides without Redis. Such decisions must stay
		// rare.
		allowed := over(loads[i], share).Median()
		if peer.name != floor && (w.allowed && allowed < 0.95 || !w.allowed && allowed > 0.01) {
			contest.Failf("%s: %s allowed a share of %.3f", w.name, peer.name, allowed)
		}
	}
	return loads
}
