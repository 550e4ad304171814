package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
)

const (
	manyKeys = 100_000
	// huge is a limit that no run reaches. stint counts it in slices.
	huge = 1_000_000_000
	// exact is a limit for which stint keeps the time of every request.
	exact = 100
)

// pattern is the order in which keys are used. The keys take turns, and the field each is the
// number of times that a key is used in its turn.
type pattern struct {
	keys []string
	each int
}

// bar is the maximum time of stint relative to the fastest peer. It is above 1 because stint
// returns the most information.
const bar = 1.6

// walker walks through a pattern, starting where it last stopped.
type walker struct {
	pattern
	at, times int
	used      int64 // units in the first windows, as the answers report them; see press
}

func (w *walker) next() string {
	if w.times == w.each {
		w.times = 0
		if w.at++; w.at == len(w.keys) {
			w.at = 0
		}
	}
	w.times++
	return w.keys[w.at]
}

// walkers returns n walkers, spread over the pattern.
func (p pattern) walkers(n int) []*walker {
	all := make([]*walker, n)
	for i := range all {
		all[i] = &walker{pattern: p, at: i * len(p.keys) / n}
	}
	return all
}

func subjectKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = subjectKey(i)
	}
	return keys
}

func subjectKey(i int) string { return fmt.Sprintf("user:%07d", i) }

// zipfKeys returns an order that uses a few keys most of the time and the others rarely.
func zipfKeys(keys []string) []string {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, uint64(len(keys)-1))
	order := make([]string, 1<<20)
	for i := range order {
		order[i] = keys[zipf.Uint64()]
	}
	return order
}

// cost is the result of one sample of an in-process limiter, per decision.
type cost struct {
	nanoseconds float64
	allocations float64
	allowed     float64 // share of decisions that were allowed
}

// nanoseconds returns the time per decision in all samples of each contender.
func nanoseconds(all [][]cost) []contest.Series {
	var list []contest.Series
	for _, costs := range all {
		list = append(list, over(costs, func(c cost) float64 { return c.nanoseconds }))
	}
	return list
}

// allocations returns the median of the allocations per decision.
func allocations(costs []cost) float64 {
	return over(costs, func(c cost) float64 { return c.allocations }).Median()
}

// chunk is the number of decisions that each goroutine makes between two readings of the clock: few
// enough that the operating system rarely preempts the goroutine in between.
const chunk = 10_000

// measure makes about n decisions, divided among the walkers, each in a goroutine. It reports the
// time of the median chunk, to reduce the effect of other load on the machine.
func measure(d decider, walkers []*walker, n int) cost {
	var (
		chunks        contest.Series
		before, after runtime.MemStats
		yes           = make([]int, len(walkers))
		failures      = make([]error, len(walkers))
		together      = len(walkers) * chunk
	)
	collect()
	runtime.ReadMemStats(&before)
	for range max(1, n/together) {
		start := time.Now()
		var others sync.WaitGroup
		for i := 1; i < len(walkers); i++ {
			others.Go(func() { yes[i], failures[i] = d.ask(walkers[i], yes[i]) })
		}
		yes[0], failures[0] = d.ask(walkers[0], yes[0])
		others.Wait()
		chunks = append(chunks, float64(time.Since(start).Nanoseconds())/float64(together))
		contest.OK(cmp.Or(failures...))
	}
	runtime.ReadMemStats(&after)
	decisions := float64(len(chunks) * together)
	allowed := 0
	for _, n := range yes {
		allowed += n
	}
	return cost{
		nanoseconds: chunks.Median(),
		allocations: float64(after.Mallocs-before.Mallocs) / decisions,
		allowed:     float64(allowed) / decisions,
	}
}

// ask makes a chunk of decisions. It returns allowed plus the number of decisions that allowed a
// request.
func (d decider) ask(w *walker, allowed int) (int, error) {
	for range chunk {
		ok, err := d.allow(w.next())
		if err != nil {
			return allowed, err
		}
		if ok {
			allowed++
		}
	}
	return allowed, nil
}

// compare fills limiters with the given number of requests for each key, and returns a series for
// each limiter: the nanoseconds per decision for keys in the given order. It closes the limiters.
func compare(ctx context.Context, s contest.Settings, ops int, keys []string, times int, order []string,
	limiters ...decider) []contest.Series {
	var samples []func() cost
	for _, d := range limiters {
		defer d.close()
		d.fill(keys, times)
		walkers := pattern{order, 1}.walkers(1)
		samples = append(samples, func() cost { return measure(d, walkers, ops) })
	}
	return nanoseconds(alternate(ctx, s.Rounds, samples...))
}

// collect runs the garbage collector, unless there is hardly any garbage.
func collect() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > m.NextGC/2+m.NextGC/10 {
		runtime.GC()
	}
}

// memoryGroup holds rows of the table that share limiters, because it takes a long time to fill a
// limiter.
type memoryGroup struct {
	limit  int64
	window time.Duration
	// fill lists the keys that get requests before the measurement. times is the number of requests
	// for each of these keys.
	fill  []string
	times int
	// allowed is the share of decisions that must be allowed, or negative if it may vary.
	allowed float64
	// growing means that the subjects' logs still grow during the measurement, so that the
	// allocations are not those of the steady state.
	growing bool
	rows    []memoryRow
}

type memoryRow struct {
	what    string
	pattern pattern
	cores   int
}

func memoryGroups(s contest.Settings, ops int) []memoryGroup {
	keys := subjectKeys(manyKeys)
	hot := pattern{keys[:1], 1}
	zipf := pattern{zipfKeys(keys), 1}
	fresh := subjectKeys(ops * s.Rounds / exact * 11 / 10)
	all := runtime.GOMAXPROCS(0)
	day := 24 * time.Hour
	full := contest.Pick(s, exact, exact/5) // filling 100,000 windows is slow
	return []memoryGroup{
		{huge, time.Minute, hot.keys, 1, 1, false, []memoryRow{
			{"allow, hot key", hot, 1}, {"allow, hot key", hot, all}}},
		{exact, day, nil, 0, 1, true, []memoryRow{{"allow, hot key, exact", pattern{fresh, exact}, 1}}},
		{exact, day, nil, 0, 1, true, []memoryRow{{"allow, hot key, exact", pattern{fresh, exact / all}, all}}},
		{huge, time.Minute, keys, 1, 1, true, []memoryRow{
			{"allow, 100,000 Zipf", zipf, 1}, {"allow, 100,000 Zipf", zipf, all}}},
		{exact, time.Minute, keys, 1, -1, true, []memoryRow{
			{"mixed, 100,000 Zipf, exact", zipf, 1}, {"mixed, 100,000 Zipf, exact", zipf, all}}},
		{int64(full), day, keys, full, 0, false, []memoryRow{
			{"deny, hot key", hot, 1}, {"deny, hot key", hot, all},
			{"deny, 100,000 Zipf", zipf, 1}, {"deny, 100,000 Zipf", zipf, all}}},
	}
}

func runMemory(ctx context.Context, s contest.Settings, r *contest.Report) {
	ops := contest.Pick(s, 500_000, 100_000)
	if most := (exact - 2) * manyKeys / 2 / s.Rounds; ops > most {
		ops = most // more decisions would reach the exact limit
	}
	r.Heading("Memory store, ns per decision", "Median of the rounds ± half the distance between the quartiles. "+
		"Ratio: stint to the fastest peer of the row. Allocations: stint's, per decision.")
	var lines [][]string
	for _, group := range memoryGroups(s, ops) {
		lines = append(lines, group.run(ctx, s, r, ops)...)
	}
	r.Table(append(append([]string{"", "goroutines"}, memoryNames()...), "ratio", "allocs"), lines)
	runBuckets(ctx, s, r, ops)
	runThreeLimits(ctx, s, r, ops)
}

// run measures the rows of a group and records their bars.
func (g memoryGroup) run(ctx context.Context, s contest.Settings, r *contest.Report, ops int) [][]string {
	deciders := make([]decider, len(memoryPeers))
	for i, peer := range memoryPeers {
		d := peer.open(g.limit, g.window)
		defer d.close()
		d.fill(g.fill, g.times)
		deciders[i] = d
	}
	var lines [][]string
	for _, row := range g.rows {
		var samples []func() cost
		for i, d := range deciders {
			walkers := row.pattern.walkers(row.cores)
			samples = append(samples, func() cost {
				c := measure(d, walkers, ops)
				if g.allowed >= 0 && math.Abs(c.allowed-g.allowed) > 0.01 {
					contest.Failf("%s: %s allowed a share of %.3f; want %.0f", row.what, memoryPeers[i].name,
						c.allowed, g.allowed)
				}
				return c
			})
		}
		costs := alternate(ctx, s.Rounds, samples...)
		all := nanoseconds(costs)
		best := fastest(all)
		ratio := all[0].Median() / all[best].Median()
		what := fmt.Sprintf("memory: %s, %s", row.what, plural(row.cores, "goroutine"))
		r.AtMost(bar, "×", what+", to the fastest peer").Judge(ratio, memoryPeers[best].name)
		if !g.growing {
			r.AtMost(0, "", what+", allocations").Judge(round(allocations(costs[0]), 1000))
		}
		line := []string{row.what, fmt.Sprint(row.cores)}
		for _, times := range all {
			line = append(line, plusMinus(times))
		}
		lines = append(lines, append(line, contest.Number(ratio), fmt.Sprintf("%.3f", allocations(costs[0]))))
	}
	return lines
}

// fill makes the given number of requests for each key. It makes a request for every key before it
// begins with the first key again, so that the requests of a key have different times.
func (d decider) fill(keys []string, times int) {
	for range times {
		for _, key := range keys {
			_ = contest.Must(d.allow(key))
		}
	}
}

// round rounds a value to a fraction of a unit: to hundredths if parts is 100.
func round(v, parts float64) float64 { return float64(int64(v*parts+0.5)) / parts }

// runThreeLimits compares one limit on a subject with three.
func runThreeLimits(ctx context.Context, s contest.Settings, r *contest.Report, ops int) {
	r.Heading("Memory store, three limits on a subject to one", "Minute, hour and day, ns per decision, one goroutine.")
	three := func(limit int64) []stint.Limit {
		return []stint.Limit{stint.PerMinute(limit), stint.PerHour(limit * 60), stint.PerDay(limit * 1440)}
	}
	keys := subjectKeys(manyKeys)
	full := contest.Pick(s, int64(exact), exact/5)
	var lines [][]string
	for _, c := range []struct {
		what  string
		limit int64
		keys  []string
		fill  int
	}{
		{"allow, hot key", huge, keys[:1], 1},
		{"allow, 100,000 in turn", huge, keys, 1},
		{"deny, hot key", full, keys[:1], int(full)},
		{"deny, 100,000 in turn", full, keys, int(full)},
	} {
		all := compare(ctx, s, ops, c.keys, c.fill, c.keys,
			openStint(three(c.limit)[:1]...), openStint(three(c.limit)...))
		ratio := all[1].Median() / all[0].Median()
		lines = append(lines, []string{c.what, plusMinus(all[0]), plusMinus(all[1]), contest.Number(ratio)})
		r.AtMost(1.6, "×", "memory: "+c.what+", three limits to one").Judge(ratio)
	}
	r.Table([]string{"", "one limit", "three limits", "ratio"}, lines)
}
