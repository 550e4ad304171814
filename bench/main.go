// Command bench compares stint with other limiters. Contenders alternate within one run, medians
// are compared, and the bars, stint's performance goals, are checked at the end. Missing a bar is a
// result, not a failure.
//
//	go run .                      everything
//	go run . -short               everything, coarser, a few minutes
//	go run . -only memory,size    some suites
package main

import (
	"context"
	"os"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

func main() { contest.Main("bench", run) }

func run(ctx context.Context, args []string) error {
	return contest.Command{Name: "bench", Suites: []contest.Suite{
		{Name: "memory", Run: runMemory},
		{Name: "size", Run: runSize},
		redisSuite(1),
		redisSuite(64),
		redisSuite(256),
		{Name: "tiers", Run: runTiers},
		{Name: "cluster", Run: runCluster},
		{Name: "http", Run: runHTTP},
	}}.Run(ctx, args, os.Stdout)
}
