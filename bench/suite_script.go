package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
)

// The load under which scripts are timed: every tick each subject asks once, all
// at the same time, so that a window of 90 ticks stays 90 requests full.
const (
	scriptSubjects = 50
	scriptLive     = 90
)

// scriptWindows are n limits of 100 whose windows hold a little more than 90
// requests each.
func scriptWindows(n int, tick time.Duration) []stint.Limit {
	limits := make([]stint.Limit, n)
	for i := range limits {
		limits[i] = stint.Per(exact, scriptLive*tick+time.Duration(i)*time.Millisecond)
	}
	return limits
}

// scriptTick finds a tick that keeps the server busy most of the time, and that
// this machine can keep up with, by how long a sorted set takes for one.
func scriptTick(ctx context.Context, addr string, windows int) (time.Duration, error) {
	d, err := openSortedSet(ctx, addr, scriptWindows(windows, time.Second)...)
	if err != nil {
		return 0, err
	}
	defer d.close()
	start := time.Now()
	if _, _, err := drive(ctx, d, driven{subjectKeys(scriptSubjects), time.Nanosecond, 1}, scriptLive, nil); err != nil {
		return 0, err
	}
	tick := 2 * time.Since(start) / scriptLive
	return max(tick, time.Millisecond).Round(100 * time.Microsecond), nil
}

// drive lets every subject ask once per tick, calls then after each, and returns
// how many were denied and how full the first window of the last answers was.
func drive(ctx context.Context, d redisDecider, l driven, ticks int, then func() error) (denied int, full float64, err error) {
	var mutex sync.Mutex
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
				err = cmp.Or(err, failure)
			})
		}
		group.Wait()
		if err != nil {
			return denied, 0, err
		}
		full = float64(sum) / float64(len(l.subjects))
		if then != nil {
			if err := then(); err != nil {
				return denied, full, err
			}
		}
		<-ticker.C
	}
	return denied, full, nil
}

// driven is who asks, how often and for how much.
type driven struct {
	subjects []string
	tick     time.Duration
	cost     int64
}

// timed is a contender for the time that scripts take.
type timed struct {
	name    string
	decider redisDecider
	limits  []stint.Limit
	load    driven
	full    contest.Series
	denied  contest.Series
}

// warm fills the windows until requests leave them as they enter.
func (t *timed) warm(ctx context.Context) error {
	longest := t.limits[len(t.limits)-1].Window
	_, _, err := drive(ctx, t.decider, t.load, int(longest/t.load.tick)+10, nil)
	return err
}

// sample returns the microseconds per call in the median tick, so that what else
// runs on the machine counts as little as possible.
func (t *timed) sample(ctx context.Context, server *redisServer, ticks int) (float64, error) {
	if err := t.warm(ctx); err != nil {
		return 0, err
	}
	usec, calls, err := server.scriptTime(ctx)
	if err != nil {
		return 0, err
	}
	var perCall contest.Series
	denied, full, err := drive(ctx, t.decider, t.load, ticks, func() error {
		u, c, err := server.scriptTime(ctx)
		if c > calls {
			perCall = append(perCall, (u-usec)/(c-calls))
		}
		usec, calls = u, c
		return err
	})
	if err != nil {
		return 0, err
	}
	t.full = append(t.full, full)
	t.denied = append(t.denied, float64(denied)/float64(ticks*len(t.load.subjects)))
	return perCall.Median(), nil
}

// scriptContenders are stint and the sorted set with one and three windows, in
// the order in which they are compared.
func scriptContenders(ctx context.Context, addr string) ([]*timed, error) {
	var all []*timed
	for _, n := range []int{1, 3} {
		tick, err := scriptTick(ctx, addr, n)
		if err != nil {
			return nil, err
		}
		limits, load := scriptWindows(n, tick), driven{subjectKeys(scriptSubjects), tick, 1}
		ours, err := openRedisStint(ctx, addr, limits...)
		if err != nil {
			return nil, err
		}
		theirs, err := openSortedSet(ctx, addr, limits...)
		if err != nil {
			return nil, err
		}
		what := "one window"
		if n > 1 {
			what = "three windows"
		}
		all = append(all,
			&timed{name: what, decider: ours, limits: limits, load: load},
			&timed{name: what, decider: theirs, limits: limits, load: load})
	}
	return all, nil
}

func runScript(ctx context.Context, s contest.Settings, r *contest.Report) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	weights, err := startFootprint(ctx, s)
	if err != nil {
		return err
	}
	defer weights.server.Close()
	server, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	contenders, err := scriptContenders(ctx, server.addr)
	if err != nil {
		return err
	}
	ticks := contest.Pick(s, 300, 100)
	var samples []func() (float64, error)
	for _, c := range contenders {
		defer c.decider.close()
		samples = append(samples, func() (float64, error) { return c.sample(ctx, server, ticks) })
	}
	all, err := alternate(ctx, max(s.Rounds, contest.Pick(s, 8, 3)), samples...)
	if err != nil {
		return err
	}
	version, err := server.info(ctx, "server")
	if err != nil {
		return err
	}
	r.Heading("Time inside the script, µs per decision", fmt.Sprintf("Redis %s, by INFO commandstats. %d subjects, 100 requests per window, about %d live.",
		version["redis_version"], scriptSubjects, scriptLive))
	var lines [][]string
	for i := 0; i < len(all); i += 2 {
		ours, theirs := all[i], all[i+1]
		ratio := ours.Median() / theirs.Median()
		lines = append(lines, []string{contenders[i].name, contest.Number(slices.Min(ours)), plusMinus(ours), contest.Number(slices.Min(theirs)), plusMinus(theirs),
			contest.Number(ratio), fmt.Sprintf("%.0f, %.0f", contenders[i].full.Median(), contenders[i+1].full.Median())})
		r.AtMost([]float64{0.9, 0.65}[i/2], "×", "script: "+contenders[i].name+", time to the sorted set").Judge(ratio)
		for _, c := range contenders[i : i+2] {
			if d := c.denied.Median(); d > 0.02 {
				return fmt.Errorf("%s: a share of %.2f was denied; want none", c.name, d)
			}
		}
	}
	r.Table([]string{"", "stint, least", "stint", "sorted set, least", "sorted set", "ratio", "live"}, lines)
	if err := runReplication(ctx, s, r); err != nil {
		return err
	}
	return weights.report(ctx, r)
}

// runReplication counts the bytes that a replica is sent per decision.
func runReplication(ctx context.Context, s contest.Settings, r *contest.Report) error {
	master, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer master.Close()
	host, port, err := net.SplitHostPort(master.addr)
	if err != nil {
		return err
	}
	replica, err := startRedis(ctx, "--replicaof", host+" "+port)
	if err != nil {
		return err
	}
	defer replica.Close()
	if err := master.awaitReplica(ctx); err != nil {
		return err
	}
	contenders, err := scriptContenders(ctx, master.addr)
	if err != nil {
		return err
	}
	ticks := contest.Pick(s, 600, 200)
	var bytes []float64
	for _, c := range contenders {
		defer c.decider.close()
		if err := c.warm(ctx); err != nil {
			return err
		}
		before, err := master.infoNumber(ctx, "replication", "master_repl_offset")
		if err != nil {
			return err
		}
		if _, _, err := drive(ctx, c.decider, c.load, ticks, nil); err != nil {
			return err
		}
		after, err := master.infoNumber(ctx, "replication", "master_repl_offset")
		if err != nil {
			return err
		}
		bytes = append(bytes, (after-before)/float64(ticks*scriptSubjects))
	}
	r.Heading("Replicated bytes per decision", "The same load; growth of master_repl_offset with a replica attached.")
	var lines [][]string
	for i := 0; i < len(bytes); i += 2 {
		ratio := bytes[i] / bytes[i+1]
		lines = append(lines, []string{contenders[i].name, contest.Number(bytes[i]), contest.Number(bytes[i+1]), contest.Number(ratio)})
		r.AtMost(2, "×", "script: "+contenders[i].name+", replicated bytes to the sorted set").Judge(ratio)
	}
	r.Table([]string{"", "stint", "sorted set", "ratio"}, lines)
	return nil
}

// footprintCase is a window to be filled evenly and weighed. Costs keep the
// number of calls low where only the sum matters.
type footprintCase struct {
	name        string
	limit       int64
	calls, cost int64
	most        float64 // bytes
}

// footprint fills windows in real time, which takes as long as a window, on a
// server of its own while something else is measured.
type footprint struct {
	server   *redisServer
	window   time.Duration
	group    sync.WaitGroup
	weights  []float64
	failures []error
}

var footprintCases = []footprintCase{
	{"full 100/min", 100, 100, 1, 1331},
	{"full 1,000/min", 1000, 1000, 1, 2048},
	{"full 1,000,000/day", 1_000_000, 1000, 1000, 2048},
}

func startFootprint(ctx context.Context, s contest.Settings) (*footprint, error) {
	server, err := startRedis(ctx)
	if err != nil {
		return nil, err
	}
	n := len(footprintCases)
	f := &footprint{server: server, window: contest.Pick(s, time.Minute, 5*time.Second), weights: make([]float64, n), failures: make([]error, n)}
	for i, c := range footprintCases {
		f.group.Go(func() { f.weights[i], f.failures[i] = c.weigh(ctx, server, subjectKey(i), f.window) })
	}
	return f, nil
}

// report waits until the windows are full and tells their size.
func (f *footprint) report(ctx context.Context, r *contest.Report) error {
	f.group.Wait()
	if err := errors.Join(f.failures...); err != nil {
		return err
	}
	r.Heading("Redis memory of a full window, bytes", fmt.Sprintf("MEMORY USAGE, SAMPLES 0, all keys of the subject. "+
		"Every window was filled evenly in %v; the layout does not depend on its length.", f.window))
	var lines [][]string
	for i, c := range footprintCases {
		sorted, err := weighSortedSet(ctx, f.server, subjectKey(i), c.limit)
		if err != nil {
			return err
		}
		lines = append(lines, []string{c.name, contest.Number(f.weights[i]), contest.Number(sorted)})
		r.AtMost(c.most, " B", "script: memory of a "+c.name).Judge(f.weights[i])
	}
	r.Table([]string{"", "stint", "sorted set"}, lines)
	return nil
}

// weigh fills a window over a little less than its length and returns the bytes
// that it takes.
func (c footprintCase) weigh(ctx context.Context, server *redisServer, subject string, window time.Duration) (float64, error) {
	d, err := openRedisStint(ctx, server.addr, stint.Per(c.limit, window))
	if err != nil {
		return 0, err
	}
	defer d.close()
	start := time.Now()
	for i := range c.calls {
		time.Sleep(time.Until(start.Add(window * 97 / 100 / time.Duration(c.calls) * time.Duration(i))))
		ok, used, err := d.allow(ctx, subject, c.cost)
		if err != nil {
			return 0, err
		}
		if !ok {
			return 0, fmt.Errorf("%s: denied at %d", c.name, used)
		}
	}
	return server.memoryOf(ctx, "stint:*"+subject+"*")
}

// weighSortedSet plants a log of n requests as the script would write it.
func weighSortedSet(ctx context.Context, server *redisServer, subject string, n int64) (float64, error) {
	key := sortedSetKey(subject, "sliding/1m")
	at := time.Now().UnixMicro()
	add := []string{"ZADD", key}
	for i := range n {
		at += 60_000_000 / n
		add = append(add, fmt.Sprint(at), fmt.Sprintf("%d.%d:%x", at/1e6, at%1e6, i))
		if len(add) < 2000 && i < n-1 {
			continue
		}
		if err := server.do(ctx, add...).Error(); err != nil {
			return 0, err
		}
		add = add[:2]
	}
	return server.memoryOf(ctx, key)
}
