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
	"syscall"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/loggen"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// Two configurations with three windows for every address: the one whose speed is promised, and one
// to compare it with.
const (
	replayConfig  = `tiers: [{name: anyone, identity: ip, limits: [120/1m burst 2x, 2000/1h, 20000/1d]}]`
	againstConfig = `tiers: [{name: anyone, identity: ip, limits: [60/1m burst 2x, 1000/1h, 10000/1d]}]`
)

// replaying is a row of the suite: what is done with the lines of a log. It returns how many
// requests were allowed, or -1 if none was judged.
type replaying struct {
	name string
	json bool
	do   func(context.Context, *accesslog.Source) (allowed int64, err error)
}

// runSimulate measures how fast logs are replayed, what that is made of, and how much memory it
// takes.
func runSimulate(ctx context.Context, s contest.Settings, r *contest.Report) error {
	conf, err := config.Parse("bench.yaml", []byte(replayConfig))
	if err != nil {
		return err
	}
	other, err := config.Parse("against.yaml", []byte(againstConfig))
	if err != nil {
		return err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if err := runReplays(ctx, s, r, []replaying{
		{"read and parsed", false, readAll},
		{"read, parsed and judged", false, judging(conf.Set)},
		{"all: judged and counted too", false, counting(simulate.Options{Set: conf.Set})},
		{"all, lines of JSON", true, counting(simulate.Options{Set: conf.Set})},
		{"all, against another configuration", false, counting(simulate.Options{Set: conf.Set, Against: other.Set})},
		{"all, with recommended limits", false, counting(simulate.Options{Set: conf.Set, Recommend: []float64{0.999}})},
	}); err != nil {
		return err
	}
	return runReplayHeap(ctx, s, r, conf.Set)
}

// whole is the row that has everything, and that others are parts of or add to.
const whole = 2

// runReplays has the rows take turns on the same requests.
func runReplays(ctx context.Context, s contest.Settings, r *contest.Report, rows []replaying) error {
	lines := contest.Pick(s, 500_000, 200_000)
	r.Heading("Replaying a log, on one core", contest.Count(int64(lines))+" lines of the combined format by 20,000 users, three windows "+
		"for each address; GOMAXPROCS is 1. The first rows are parts of the third: what it takes more than the one before it is the part's own.")
	dir, err := os.MkdirTemp("", "stint-bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	logs := map[bool]string{} // by whether it is JSON
	for _, json := range []bool{false, true} {
		logs[json] = filepath.Join(dir, fmt.Sprintf("json-%v.log", json))
		if err := writeLog(logs[json], loggen.Options{Lines: lines, Users: 20_000, JSON: json}); err != nil {
			return err
		}
	}
	allowed := int64(-1)
	cpu := make([]contest.Series, len(rows))
	var samples []func() (float64, error)
	for i, row := range rows {
		samples = append(samples, func() (float64, error) {
			took, err := row.run(ctx, logs[row.json], lines, &allowed)
			cpu[i] = append(cpu[i], took.cpu)
			return took.wall, err
		})
	}
	wall, err := alternate(ctx, s.Rounds, samples...)
	if err != nil {
		return err
	}
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
	return nil
}

// spent is the time that a line took, in nanoseconds.
type spent struct{ wall, cpu float64 }

// run replays a log once. All rows that judge have to allow the same number of its requests.
func (p *replaying) run(ctx context.Context, log string, lines int, allowed *int64) (spent, error) {
	runtime.GC() // what the row before left
	before, err := ownCPU()
	if err != nil {
		return spent{}, err
	}
	start := time.Now()
	source, err := accesslog.Open([]string{log}, accesslog.Options{})
	if err != nil {
		return spent{}, err
	}
	defer source.Close()
	got, err := p.do(ctx, source)
	wall := time.Since(start)
	if err != nil {
		return spent{}, err
	}
	after, err := ownCPU()
	if err != nil {
		return spent{}, err
	}
	if read := source.Stats(); read.Lines != int64(lines) || read.Malformed+read.Late > 0 {
		return spent{}, fmt.Errorf("%s: read %d lines, %d malformed and %d late; want %d good ones", p.name, read.Lines, read.Malformed, read.Late, lines)
	}
	if *allowed < 0 {
		*allowed = got
	}
	if got >= 0 && got != *allowed {
		return spent{}, fmt.Errorf("%s: allowed %d requests; want %d, as others do", p.name, got, *allowed)
	}
	return spent{float64(wall) / float64(lines), float64(after-before) / float64(lines)}, nil
}

// ownCPU is the CPU time of this process.
func ownCPU() (time.Duration, error) {
	var self syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &self)
	return time.Duration(self.Utime.Nano() + self.Stime.Nano()), err
}

// readAll reads a log and does nothing with it.
func readAll(_ context.Context, source *accesslog.Source) (int64, error) {
	return -1, each(source, func(*accesslog.Record) error { return nil })
}

// each reads a log to its end.
func each(source *accesslog.Source, do func(*accesslog.Record) error) error {
	var record accesslog.Record
	for {
		switch err := source.Next(&record); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := do(&record); err != nil {
			return err
		}
	}
}

// judging decides on every request of a log, by the time of the log, and counts what is allowed.
func judging(set *policy.Set) func(context.Context, *accesslog.Source) (int64, error) {
	return func(ctx context.Context, source *accesslog.Source) (allowed int64, err error) {
		var now atomic.Int64 // nanoseconds
		store, err := memorystore.New(memorystore.Config{
			MaxSubjects: simulate.DefaultMaxSubjects, Now: func() time.Time { return time.Unix(0, now.Load()) },
		})
		if err != nil {
			return 0, err
		}
		defer store.Close()
		guard, err := policy.NewGuard(store, set, policy.GuardConfig{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return 0, err
		}
		var in policy.Input
		var v policy.Verdict
		err = each(source, func(record *accesslog.Record) error {
			now.Store(record.At)
			in = policy.Input{Method: record.Method, Host: record.Host, Path: record.Path, RawPath: record.RawPath,
				Peer: record.Client}
			err := guard.Decide(ctx, &in, &v)
			if v.Decision.Allowed {
				allowed++
			}
			return err
		})
		return allowed, err
	}
}

// counting replays a log as `stint simulate` does.
func counting(o simulate.Options) func(context.Context, *accesslog.Source) (int64, error) {
	return func(ctx context.Context, source *accesslog.Source) (int64, error) {
		result, err := simulate.Run(ctx, source, o)
		if err != nil {
			return 0, err
		}
		return result.Outcome.Total.Allowed, nil
	}
}

// writeLog writes a log into a file.
func writeLog(path string, o loggen.Options) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(loggen.Generate(file, o), file.Close())
}
