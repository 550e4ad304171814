package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/internal/loggen"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/policy"
)

// runReplayHeap replays a month of a log that never exists as a whole, and measures the heap during
// the replay.
func runReplayHeap(ctx context.Context, s contest.Settings, r *contest.Report, set *policy.Set) {
	lines := contest.Pick(s, 10_000_000, 1_000_000)
	reader, writer := io.Pipe()
	defer reader.Close() // also ends the goroutine, if it is still running
	go func() {
		_ = writer.CloseWithError(loggen.Generate(
			writer, loggen.Options{Lines: lines, Users: 100_000, Span: 30 * 24 * time.Hour}))
	}()
	before := liveHeap()
	source := contest.Must(accesslog.Open([]string{"-"}, accesslog.Options{Stdin: reader}))
	defer source.Close()
	marks := []int64{int64(lines) / 10, int64(lines) / 4, int64(lines) / 2, int64(lines)}
	var table [][]string
	var heap float64
	result := contest.Must(simulate.Run(ctx, source, simulate.Options{Set: set, Progress: func(read accesslog.Stats) {
		if len(marks) == 0 || read.Lines < marks[0] {
			return
		}
		heap = liveHeap() - before
		table = append(table, []string{contest.Count(marks[0]), contest.Number(round(heap/1e6, 10))})
		marks = marks[1:]
	}}))
	if result.Log.Requests != int64(lines) {
		contest.Failf("replayed %d requests of %d lines", result.Log.Requests, lines)
	}
	seen := result.Outcome.Subjects.Seen
	r.Heading("Live heap while a log is replayed, MB", fmt.Sprintf("A month of %s subjects, three windows for each, from a pipe.", contest.Count(int64(seen))))
	r.Table([]string{"lines so far", "MB"}, table)
	r.AtMost(2048, " B", "simulate: heap per subject after "+contest.Count(int64(lines))+" lines").Judge(
		round(heap/float64(seen), 1))
}
