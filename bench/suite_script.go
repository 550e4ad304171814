package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
)

// The load under which scripts are timed: on every tick, each subject sends one request, all at the
// same time, so that a window of 90 ticks always holds 90 requests.
const (
	scriptSubjects = 50
	scriptLive     = 90
)

// scriptWindows returns n limits of 100 whose windows hold a little more than 90 requests each.
func scriptWindows(n int, tick time.Duration) []stint.Limit {
	limits := make([]stint.Limit, n)
	for i := range limits {
		limits[i] = stint.Per(exact, scriptLive*tick+time.Duration(i)*time.Millisecond)
	}
	return limits
}

// scriptTick returns a tick that keeps the server busy most of the time, and that this machine can
// keep up with. It derives the tick from the time that a sorted set takes.
func scriptTick(ctx context.Context, addr string, windows int) time.Duration {
	d := openSortedSet(ctx, addr, scriptWindows(windows, time.Second)...)
	defer d.close()
	start := time.Now()
	drive(ctx, d, driven{subjectKeys(scriptSubjects), time.Nanosecond, 1}, scriptLive, nil)
	tick := 2 * time.Since(start) / scriptLive
	return max(tick, time.Millisecond).Round(100 * time.Microsecond)
}

// drive makes every subject send a request per tick and calls then after each tick. It returns how
// many were denied, and how full the first window was at the last answers.
func drive(ctx context.Context, d redisDecider, l driven, ticks int, then func()) (denied int, full float64) {
	var mutex sync.Mutex
	var failed error
	ticker := time.NewTicker(l.tick)
	defer ticker.Stop()
	for range ticks {
		sum := int64(0)
		var group sync.WaitGroup
		for _, subject := range l.subjects {
			group.Go(func() {
				ok, used, failure := d.allow(ctx, subject, l.cost)
				mutex.Lock()
				defer mutex.Unlock()
				if !ok {
					denied++
				}
				sum += used
				failed = cmp.Or(failed, failure)
			})
		}
		group.Wait()
		contest.OK(failed)
		full = float64(sum) / float64(len(l.subjects))
		if then != nil {
			then()
		}
		<-ticker.C
	}
	return denied, full
}

// driven describes a load: the subjects, the tick and the cost of a request.
type driven struct {
	subjects []string
	tick     time.Duration
	cost     int64
}

// timed is a contender in the measurement of script times.
type timed struct {
	name    string
	decider redisDecider
	limits  []stint.Limit
	load    driven
	full    contest.Series
	denied  contest.Series
}

// warm fills the first window, and windows that are hardly longer, until requests leave them as
// others enter.
func (t *timed) warm(ctx context.Context) {
	drive(ctx, t.decider, t.load, int(t.limits[0].Window/t.load.tick)+10, nil)
}

// sample returns the microseconds per call in the median tick, so that other load on the machine
// has as little effect as possible.
func (t *timed) sample(ctx context.Context, server *redisServer, ticks int) float64 {
	t.warm(ctx)
	usec, calls := server.scriptTime(ctx)
	var perCall contest.Series
	denied, full := drive(ctx, t.decider, t.load, ticks, func() {
		u, c := server.scriptTime(ctx)
		if c > calls {
			perCall = append(perCall, (u-usec)/(c-calls))
		}
		usec, calls = u, c
	})
	t.full = append(t.full, full)
	t.denied = append(t.denied, float64(denied)/float64(ticks*len(t.load.subjects)))
	return perCall.Median()
}

// scriptContenders returns stint and the sorted set with one and three windows, in the order in
// which they are compared.
func scriptContenders(ctx context.Context, addr string) []*timed {
	var all []*timed
	for _, n := range []int{1, 3} {
		tick := scriptTick(ctx, addr, n)
		limits, load := scriptWindows(n, tick), driven{subjectKeys(scriptSubjects), tick, 1}
		ours := openRedisStint(ctx, addr, limits...)
		theirs := openSortedSet(ctx, addr, limits...)
		what := "one window"
		if n > 1 {
			what = "three windows"
		}
		all = append(all,
			&timed{name: what, decider: ours, limits: limits, load: load},
			&timed{name: what, decider: theirs, limits: limits, load: load})
	}
	return all
}

func runScript(ctx context.Context, s contest.Settings, r *contest.Report) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	weights := startFootprint(ctx, s)
	defer weights.server.Close()
	tier, counted := replicateTier(ctx, s)
	defer func() {
		stop()
		<-counted
		weights.group.Wait()
	}()
	server := startRedis(ctx)
	defer server.Close()
	contenders := scriptContenders(ctx, server.addr)
	ticks := contest.Pick(s, 300, 100)
	var samples []func() float64
	for _, c := range contenders {
		defer c.decider.close()
		samples = append(samples, func() float64 { return c.sample(ctx, server, ticks) })
	}
	all := alternate(ctx, max(s.Rounds, contest.Pick(s, 8, 3)), samples...)
	r.Heading("Time inside the script, µs per decision", fmt.Sprintf("Redis %s, by INFO commandstats. %d subjects, 100 requests per window, about %d live.",
		server.info(ctx, "server")["redis_version"], scriptSubjects, scriptLive))
	var lines [][]string
	for i := 0; i < len(all); i += 2 {
		ours, theirs := all[i], all[i+1]
		ratio := ours.Median() / theirs.Median()
		lines = append(lines, []string{contenders[i].name, contest.Number(slices.Min(ours)), plusMinus(ours),
			contest.Number(slices.Min(theirs)), plusMinus(theirs),
			contest.Number(ratio), fmt.Sprintf("%.0f, %.0f", contenders[i].full.Median(),
				contenders[i+1].full.Median())})
		r.AtMost([]float64{0.9, 0.65}[i/2], "×", "script: "+contenders[i].name+", time to the sorted set").Judge(ratio)
		for _, c := range contenders[i : i+2] {
			if d := c.denied.Median(); d > 0.02 {
				contest.Failf("%s: a share of %.2f was denied; want none", c.name, d)
			}
		}
	}
	r.Table([]string{"", "stint, least", "stint", "sorted set, least", "sorted set", "ratio", "live"}, lines)
	runReplication(ctx, s, r, tier)
	weights.report(ctx, r)
}

// startReplicated starts a server and its replica.
func startReplicated(ctx context.Context) servers {
	return startServers(func(pair *servers) {
		master := startRedis(ctx)
		*pair = append(*pair, master)
		host, port, _ := net.SplitHostPort(master.addr)
		*pair = append(*pair, startRedis(ctx, "--replicaof", host+" "+port))
		await("the replica did not come up", func() bool {
			return strings.Contains(master.info(ctx, "replication")["slave0"], "state=online")
		})
	})
}

// replicatedBytes counts the bytes per decision that a master sends its replica, with warm windows.
func (t *timed) replicatedBytes(ctx context.Context, master *redisServer, ticks int) float64 {
	t.warm(ctx)
	before := master.infoNumber(ctx, "replication", "master_repl_offset")
	denied, _ := drive(ctx, t.decider, t.load, ticks, nil)
	after := master.infoNumber(ctx, "replication", "master_repl_offset")
	decisions := float64(ticks * len(t.load.subjects))
	if share := float64(denied) / decisions; share > 0.02 {
		contest.Failf("%s: a share of %.2f was denied; want none", t.name, share)
	}
	return (after - before) / decisions
}

// replicateTier counts the bytes of the tier in the documents. It takes two of the tier's minutes
// and hardly any CPU, so it runs while something else is measured. It returns a function that waits
// for the count, and a channel that is closed when its servers have stopped.
func replicateTier(ctx context.Context, s contest.Settings) (wait func() float64, _ <-chan struct{}) {
	minute := contest.Pick(s, time.Minute, 5*time.Second)
	var bytes float64
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = contest.Catch(func() { bytes = tierBytes(ctx, minute) })
	}()
	return func() float64 {
		<-done
		contest.OK(err)
		return bytes
	}, done
}

func tierBytes(ctx context.Context, minute time.Duration) float64 {
	pair := startReplicated(ctx)
	defer pair.Close()
	limits := tierLimits(minute)
	d := openRedisStint(ctx, pair[0].addr, limits...)
	defer d.close()
	load := driven{subjectKeys(scriptSubjects), minute / scriptLive, 1}
	t := timed{name: "the tier", decider: d, limits: limits, load: load}
	return t.replicatedBytes(ctx, pair[0], scriptLive)
}

// runReplication counts the bytes per decision that a replica receives, and waits for those of the
// tier.
func runReplication(ctx context.Context, s contest.Settings, r *contest.Report, tier func() float64) {
	pair := startReplicated(ctx)
	defer pair.Close()
	contenders := scriptContenders(ctx, pair[0].addr)
	var bytes []float64
	for _, c := range contenders {
		defer c.decider.close()
		bytes = append(bytes, c.replicatedBytes(ctx, pair[0], contest.Pick(s, 600, 200)))
	}
	r.Heading("Replicated bytes per decision", "The same load; growth of master_repl_offset with a replica attached. "+
		"The tier, 100/min, 2,000/h and 50,000/day, is asked 90 times a minute in real time.")
	var lines [][]string
	for i := 0; i < len(bytes); i += 2 {
		ratio := bytes[i] / bytes[i+1]
		lines = append(lines, []string{contenders[i].name, contest.Number(bytes[i]), contest.Number(bytes[i+1]),
			contest.Number(ratio)})
		r.AtMost(2, "×", "script: "+contenders[i].name+", replicated bytes to the sorted set").Judge(ratio)
	}
	n := tier()
	lines = append(lines, []string{"the tier", contest.Number(n), "", ""})
	r.AtMost(300, " B", "script: the tier, replicated bytes").Judge(round(n, 1))
	r.Table([]string{"", "stint", "sorted set", "ratio"}, lines)
}

// footprintCase describes windows to fill evenly and weigh. Costs keep the number of calls low
// where only the sum matters.
type footprintCase struct {
	name        string
	windows     []footprintWindow
	calls, cost int64
	most        float64 // bytes
}

// footprintWindow is a window of a limit. Its length is the filling time divided by part.
type footprintWindow struct{ limit, part int64 }

// footprint fills windows in real time, which takes as long as a window, on its own server while
// something else is measured.
type footprint struct {
	server   *redisServer
	window   time.Duration
	group    sync.WaitGroup
	weights  []float64
	failures []error
}

// The lengths of the windows of the last case are closer to each other than minute, hour and day,
// so that an even load does not reach the limits of the shorter ones, and still fills all slices of
// the longer ones.
var footprintCases = []footprintCase{
	{"full 100/min", []footprintWindow{{100, 1}}, 100, 1, 1331},
	{"full 1,000/min", []footprintWindow{{1000, 1}}, 1000, 1, 2048},
	{"full 1,000,000/day", []footprintWindow{{1_000_000, 1}}, 1000, 1000, 2048},
	{"full 100/min, 1,000/h and 10,000/day", []footprintWindow{{100, 200}, {1000, 20}, {10_000, 1}}, 9900, 1, 4403},
}

func startFootprint(ctx context.Context, s contest.Settings) *footprint {
	server := startRedis(ctx)
	n := len(footprintCases)
	f := &footprint{server: server, window: contest.Pick(s, time.Minute, 10*time.Second), weights: make([]float64, n),
		failures: make([]error, n)}
	for i, c := range footprintCases {
		f.group.Go(func() {
			f.failures[i] = contest.Catch(func() { f.weights[i] = c.weigh(ctx, server, subjectKey(i), f.window) })
		})
	}
	return f
}

// report waits until the windows are full and reports their size.
func (f *footprint) report(ctx context.Context, r *contest.Report) {
	f.group.Wait()
	contest.OK(errors.Join(f.failures...))
	r.Heading("Redis memory of a full window, bytes", fmt.Sprintf("MEMORY USAGE, SAMPLES 0, all keys of the subject. "+
		"The windows were filled evenly in %v; the layout does not depend on their lengths.", f.window))
	var lines [][]string
	for i, c := range footprintCases {
		sorted := 0.0
		for _, w := range c.windows {
			sorted += weighSortedSet(ctx, f.server, subjectKey(i), w.limit)
		}
		lines = append(lines, []string{c.name, contest.Number(f.weights[i]), contest.Number(sorted)})
		r.AtMost(c.most, " B", "script: memory of a "+c.name).Judge(f.weights[i])
	}
	r.Table([]string{"", "stint", "sorted set"}, lines)
}

// weigh fills windows over a little less than the length of the longest, until one is completely
// full, and returns the bytes that they take.
func (c footprintCase) weigh(ctx context.Context, server *redisServer, subject string, window time.Duration) float64 {
	var limits []stint.Limit
	for _, w := range c.windows {
		limits = append(limits, stint.Per(w.limit, window/time.Duration(w.part)))
	}
	d := openRedisStint(ctx, server.addr, limits...)
	defer d.close()
	take := func() bool {
		ok, _, err := d.allow(ctx, subject, c.cost)
		contest.OK(err)
		return ok
	}
	start := time.Now()
	for i := range c.calls {
		time.Sleep(time.Until(start.Add(window * 97 / 100 / time.Duration(c.calls) * time.Duration(i))))
		for !take() { // after the machine stalls, a short window may be full for a moment
		}
	}
	if took := time.Since(start); took > window*11/10 {
		contest.Failf("%s: filled in %v; want %v at most", c.name, took, window)
	}
	for take() {
	}
	return server.memoryOf(ctx, plainPrefix+":*"+subject+"*")
}

// weighSortedSet writes a log of n requests in the form in which the script would write it, and
// weighs it.
func weighSortedSet(ctx context.Context, server *redisServer, subject string, n int64) float64 {
	key := sortedSetKey(subject, fmt.Sprintf("sliding/%d", n))
	at := time.Now().UnixMicro()
	add := []string{"ZADD", key}
	for i := range n {
		at += 60_000_000 / n
		add = append(add, fmt.Sprint(at), fmt.Sprintf("%d.%d:%x", at/1e6, at%1e6, i))
		if len(add) < 2000 && i < n-1 {
			continue
		}
		contest.OK(server.do(ctx, add...).Error())
		add = add[:2]
	}
	return server.memoryOf(ctx, key)
}
