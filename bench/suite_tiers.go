package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
)

// tierCallers is the number of concurrent callers in rows in which calls can share batches and
// pipelines.
const tierCallers = 64

// tierRow describes a row of the tables: the limits under which stint and rueidislimiter are
// compared.
type tierRow struct {
	name   string
	limits []stint.Limit
	// cpu is the maximum processor time of Redis for a decision, relative to one rueidislimiter
	// call. unbatched is the same bound for the plain store with one caller; 0 means that it is not
	// measured.
	cpu, unbatched float64
}

// tierLimits returns the limits of the tier in the documentation. In a short run, minute is shorter
// than a minute.
func tierLimits(minute time.Duration) []stint.Limit {
	return []stint.Limit{stint.Per(100, minute), stint.PerHour(2000), stint.PerDay(50_000)}
}

func tierRows(minute time.Duration) []tierRow {
	return []tierRow{
		{"one sliced window", []stint.Limit{stint.PerHour(huge)}, 0.7, 1.6},
		{"one exact window", []stint.Limit{stint.Per(exact, minute)}, 0.9, 0},
		{"three sliced windows", []stint.Limit{stint.Per(huge, minute), stint.PerHour(huge), stint.PerDay(huge)}, 1,
			2.1},
		{"the tier", tierLimits(minute), 1, 0},
		{"three exact windows", []stint.Limit{
			stint.Per(exact, minute), stint.Per(exact, minute+time.Second), stint.Per(exact, minute+2*time.Second),
		}, 1.4, 0},
	}
}

// tierLoads holds the measurements of a row's contenders, with one load per round.
type tierLoads struct {
	stint, call, calls []load // many callers: the stack, one call of rueidislimiter, and a call for each window
	plain, alone       []load // one caller: the plain store, and one call of rueidislimiter
}

// runTiers compares stint with rueidislimiter over many subjects: processor time of Redis and
// decisions a second.
func runTiers(ctx context.Context, s contest.Settings, r *contest.Report) {
	server := startRedis(ctx)
	defer server.Close()
	minute, subjects := contest.Pick(s, time.Minute, 5*time.Second), contest.Pick(s, manyKeys, manyKeys/12)
	keys := subjectKeys(subjects)
	rand.Shuffle(subjects, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })

	single := r.AtLeast(1.5, "×", "tiers: decisions a second with one window, to rueidislimiter")
	triple := r.AtLeast(2.5, "×", "tiers: decisions a second with three windows, to three calls of rueidislimiter")
	var cpus, rates, unbatched [][]string
	for _, row := range tierRows(minute) {
		l := row.compete(ctx, s, server, keys, minute)
		line, ratio := against(row.name, l.stint, l.call, serverTime)
		live := over(l.stint, func(l load) float64 { return l.used }).Median()
		cpus = append(cpus, append(line, contest.Number(round(live, 1)), contest.Number(over(l.stint, share).Median())))
		r.AtMost(row.cpu, "×", "tiers: "+row.name+", server time per decision to one call of rueidislimiter").Judge(ratio)

		line, ratio = against(row.name, l.stint, l.calls, perSecond)
		rates = append(rates, line)
		if len(row.limits) == 1 {
			single.Judge(ratio, row.name)
		} else {
			triple.Judge(ratio, row.name)
		}
		if row.unbatched > 0 {
			line, ratio = against(row.name, l.plain, l.alone, serverTime)
			unbatched = append(unbatched, line)
			r.AtMost(row.unbatched, "×", "tiers: "+row.name+", plain store, 1 caller, server time per decision to rueidislimiter").Judge(ratio)
		}
	}
	header := []string{"", "stint", "rueidislimiter", "ratio"}
	r.Heading("Tiers, processor time of the server, µs per decision, "+plural(tierCallers, "caller"), fmt.Sprintf(
		"%s subjects in random order, compared with one call of rueidislimiter. Ratio: the median of the ratios of the rounds. "+
			"Live: units in the first window of a subject. Allowed: the share of stint's decisions that were neither denied nor made by its fallback.", contest.Count(int64(subjects))))
	r.Table(append(header, "live", "allowed"), cpus)
	r.Heading("Tiers, decisions a second, "+plural(tierCallers, "caller"), "The same load, compared with one call of rueidislimiter per window.")
	r.Table(header, rates)
	r.Heading("Tiers, processor time of the server, µs per decision, plain store, 1 caller", "Compared with one call of rueidislimiter.")
	r.Table(header, unbatched)
}

// against returns a row that compares two contenders: the median of each, and the median of the
// ratios of all rounds. It also returns that median ratio.
func against(name string, ours, theirs []load, value func(load) float64) ([]string, float64) {
	all := ratios(over(ours, value), over(theirs, value))
	return []string{name, plusMinus(over(ours, value)), plusMinus(over(theirs, value)), plusMinus(all)}, all.Median()
}

func share(l load) float64 { return l.Allowed }

// compete warms up the contenders of a row, and then makes them take turns.
func (row tierRow) compete(ctx context.Context, s contest.Settings, server *redisServer, keys []string,
	minute time.Duration) tierLoads {
	contest.OK(server.do(ctx, "FLUSHALL").Error())
	type contender struct {
		loads   *[]load
		peer    redisPeer
		callers int
		limits  []stint.Limit
		warm    time.Duration
	}
	var l tierLoads
	peer := redisPeer{"rueidislimiter", openRueidisLimiter}
	contenders := []contender{
		{&l.stint, redisPeers[stack], tierCallers, row.limits, minute},
		{&l.call, peer, tierCallers, row.limits[:1], 0},
	}
	if len(row.limits) > 1 {
		contenders = append(contenders, contender{&l.calls, peer, tierCallers, row.limits, 0})
	}
	if row.unbatched > 0 {
		contenders = append(contenders, contender{&l.plain, redisPeers[plain], 1, row.limits, 0},
			contender{&l.alone, peer, 1, row.limits[:1], 0})
	}
	var samples []func() load
	for _, c := range contenders {
		d := c.peer.connect(ctx, server.addr, c.callers, c.limits...)
		defer d.close()
		walkers := pattern{keys, 1}.walkers(c.callers)
		warm(ctx, server, d, walkers, c.warm)
		samples = append(samples, func() load { return press(ctx, server, d, walkers, pressTime(s)) })
	}
	for i, loads := range alternate(ctx, s.Rounds, samples...) {
		c := contenders[i]
		*c.loads = loads
		// On a busy machine, stint sometimes decides without Redis. Such decisions must stay rare.
		if allowed := over(loads, share).Median(); allowed < 0.95 {
			contest.Failf("%s: %s allowed a share of %.3f; want all", row.name, c.peer.name, allowed)
		}
	}
	if len(row.limits) == 1 {
		l.calls = l.call
	}
	return l
}

// warm sends requests of all subjects for the given time, at a pace that half fills a limit of
// exact units in that time. It continues at least until every subject was used.
func warm(ctx context.Context, server *redisServer, d redisDecider, walkers []*walker, length time.Duration) {
	const half = exact / 2
	start := time.Now()
	for used := 0.0; used < 2 || time.Since(start) < length; {
		used = press(ctx, server, d, walkers, 100*time.Millisecond).used
		time.Sleep(time.Until(start.Add(time.Duration(min(used/half, 1) * float64(length)))))
	}
}
