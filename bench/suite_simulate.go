package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/bench/internal/process"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/loggen"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// Two configurations with three windows for every address: the one with a promised speed, and one
// to compare it with.
const (
	replayConfig  = `tiers: [{name: anyone, identity: ip, limits: [120/1m burst 2x, 2000/1h, 20000/1d]}]`
	againstConfig = `tiers: [{name: anyone, identity: ip, limits: [60/1m burst 2x, 1000/1h, 10000/1d]}]`
)

// replaying is a row of the suite: a way to process the lines of a log. Do returns how many
// requests were allowed, or -1 if it makes no decisions.
type replaying struct {
	name string
	json bool
	do   func(context.Context, *accesslog.Source) (allowed int64)
}

// runSimulate measures how fast logs are replayed, how the parts of a replay contribute, and how
// much memory it takes.
func runSimulate(ctx context.Context, s contest.Settings, r *contest.Report) {
	conf := contest.Must(config.Parse("bench.yaml", []byte(replayConfig)))
	other := contest.Must(config.Parse("against.yaml", []byte(againstConfig)))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	runReplays(ctx, s, r, []replaying{
		{"read and parsed", false, readAll},
		{"read, parsed and judged", false, judging(conf.Set)},
		{"all: judged and counted too", false, counting(simulate.Options{Set: conf.Set})},
		{"all, lines of JSON", true, counting(simulate.Options{Set: conf.Set})},
		{"all, against another configuration", false, counting(simulate.Options{Set: conf.Set, Against: other.Set})},
		{"all, with recommended limits", false, counting(simulate.Options{Set: conf.Set, Recommend: []float64{0.999}})},
	})
	runReplayHeap(ctx, s, r, conf.Set)
}

// whole is the index of the row with the full replay, which other rows are parts of or add to.
const whole = 2

// runReplays makes the rows take turns on the same requests.
func runReplays(ctx context.Context, s contest.Settings, r *contest.Report, rows []replaying) {
	lines := contest.Pick(s, 500_000, 200_000)
	r.Heading("Replaying a log, on one core", contest.Count(int64(lines))+" lines of the combined format by 20,000 users, three windows "+
		"for each address; GOMAXPROCS is 1. The first rows are parts of the third: what it takes more than the one before it is the part's own.")
	dir := contest.Must(os.MkdirTemp("", "stint-bench-*"))
	defer os.RemoveAll(dir)
	logs := map[bool]string{} // by format: true is JSON
	for _, json := range []bool{false, true} {
		logs[json] = filepath.Join(dir, fmt.Sprintf("json-%v.log", json))
		writeLog(logs[json], loggen.Options{Lines: lines, Users: 20_000, JSON: json})
	}
	allowed := int64(-1)
	cpu := make([]contest.Series, len(rows))
	var samples []func() float64
	for i, row := range rows {
		samples = append(samples, func() float64 {
			took := row.run(ctx, logs[row.json], lines, &allowed)
			cpu[i] = append(cpu[i], took.cpu)
			return took.wall
		})
	}
	wall := alternate(ctx, s.Rounds, samples...)
	var table [][]string
	for i, row := range rows {
		table = append(table, []string{
			row.name, contest.Count(int64(1e9 / wall[i].Median())), plusMinus(wall[i]), plusMinus(cpu[i]),
			fmt.Sprintf("%.2f", wall[i].Median()/wall[whole].Median()),
		})
	}
	r.Table([]string{"", "lines a second", "ns a line", "CPU ns a line", "of all"}, table)
	r.AtLeast(500_000, " lines/s", "simulate: on one core").Judge(
		math.Round(1e9/wall[whole].Median()/1000) * 1000)
}

// spent is the time per line, in nanoseconds.
type spent struct{ wall, cpu float64 }

// run replays a log once. All rows that make decisions must allow the same number of requests.
func (p *replaying) run(ctx context.Context, log string, lines int, allowed *int64) spent {
	runtime.GC() // collect what the previous row left
	before := process.OwnCPU()
	start := time.Now()
	source := contest.Must(accesslog.Open([]string{log}, accesslog.Options{}))
	defer source.Close()
	got := p.do(ctx, source)
	wall := time.Since(start)
	after := process.OwnCPU()
	if read := source.Stats(); read.Lines != int64(lines) || read.Malformed+read.Late > 0 {
		contest.Failf("%s: read %d lines, %d malformed and %d late; want %d good ones", p.name, read.Lines, read.Malformed, read.Late, lines)
	}
	if *allowed < 0 {
		*allowed = got
	}
	if got >= 0 && got != *allowed {
		contest.Failf("%s: allowed %d requests; want %d, as others do", p.name, got, *allowed)
	}
	return spent{float64(wall) / float64(lines), float64(after-before) / float64(lines)}
}

// readAll reads a log without processing it.
func readAll(_ context.Context, source *accesslog.Source) int64 {
	each(source, func(*accesslog.Record) {})
	return -1
}

// each reads a log to its end.
func each(source *accesslog.Source, do func(*accesslog.Record)) {
	var record accesslog.Record
	for {
		err := source.Next(&record)
		if errors.Is(err, io.EOF) {
			return
		}
		contest.OK(err)
		do(&record)
	}
}

// judging decides on every request of a log, at the time in the log, and counts the allowed ones.
func judging(set *policy.Set) func(context.Context, *accesslog.Source) int64 {
	return func(ctx context.Context, source *accesslog.Source) (allowed int64) {
		var now atomic.Int64 // nanoseconds
		store := contest.Must(memorystore.New(memorystore.Config{
			MaxSubjects: simulate.DefaultMaxSubjects, Now: func() time.Time { return time.Unix(0, now.Load()) },
		}))
		defer store.Close()
		guard := contest.Must(policy.NewGuard(store, set, policy.GuardConfig{Logger: slog.New(slog.DiscardHandler)}))
		var in policy.Input
		var v policy.Verdict
		each(source, func(record *accesslog.Record) {
			now.Store(record.At)
			in = policy.Input{Method: record.Method, Host: record.Host, Path: record.Path, RawPath: record.RawPath,
				Peer: record.Client}
			contest.OK(guard.Decide(ctx, &in, &v))
			if v.Decision.Allowed {
				allowed++
			}
		})
		return allowed
	}
}

// counting replays a log in the way of `stint simulate`.
func counting(o simulate.Options) func(context.Context, *accesslog.Source) int64 {
	return func(ctx context.Context, source *accesslog.Source) int64 {
		return contest.Must(simulate.Run(ctx, source, o)).Outcome.Total.Allowed
	}
}

// writeLog writes a log to a file.
func writeLog(path string, o loggen.Options) {
	file := contest.Must(os.Create(path))
	contest.OK(errors.Join(loggen.Generate(file, o), file.Close()))
}
