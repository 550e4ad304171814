package overrides_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/overrides"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/redisstore"
)

// BenchmarkDecide is a verdict on the memory store about a subject without an override: without a
// table, with an empty one, and with a million others.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{-1, 0, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			store, err := memorystore.New(memorystore.Config{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { store.Close() })
			c := policy.GuardConfig{Logger: slog.New(slog.DiscardHandler)}
			if n >= 0 {
				c.Overrides = fill(b, store, n)
			}
			guard, err := policy.NewGuard(store, set(b), c)
			if err != nil {
				b.Fatal(err)
			}
			in := policy.Input{Method: "GET", Host: "example.com", Path: "/", Claims: user("none")}
			v := new(policy.Verdict)
			for b.Loop() {
				if err := guard.Decide(context.Background(), &in, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLimits is what a table of a million adds to a decision about a subject without an
// override.
func BenchmarkLimits(b *testing.B) {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	table := fill(b, store, 1_000_000)
	limits := []stint.Limit{stint.PerHour(2)}
	for b.Loop() {
		table.Limits("free", "user:none", limits)
	}
}

// BenchmarkOpen is the start of a process that finds a million overrides in Redis: how long it
// takes, and how much memory they use.
func BenchmarkOpen(b *testing.B) {
	const n = 1_000_000
	server := redistest.Start(b)
	store, err := redisstore.Open(b.Context(), redisstore.Config{URL: server.URL()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	fill(b, store, n).Close()
	var bytes int64
	for b.Loop() {
		b.StopTimer()
		before := heap()
		b.StartTimer()
		table, err := overrides.Open(b.Context(), store, overrides.Config{})
		b.StopTimer()
		if err != nil || table.Len() != n {
			b.Fatalf("%d overrides, %v", table.Len(), err)
		}
		bytes = heap() - before
		table.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(bytes)/1e6, "MB")
}

// fill opens a table with so many overrides.
func fill(b *testing.B, store stint.Store, n int) *overrides.Table {
	table, err := overrides.Open(b.Context(), store, overrides.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(table.Close)
	all := make([]overrides.Override, n)
	for i := range all {
		all[i] = raise(fmt.Sprint(i), stint.PerHour(500))
	}
	if err := table.SetAll(b.Context(), all); err != nil {
		b.Fatal(err)
	}
	return table
}
