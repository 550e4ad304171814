// Command bench measures stint beside other limiters: contenders alternate
// within one run, medians are compared, and the bars that stint sets itself are
// checked at the end. Missing a bar is a result, not a failure.
//
//	go run .                      everything, about twenty minutes
//	go run . -short               everything, coarser, a few minutes
//	go run . -only memory,size    some suites
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// settings are what the flags say, and what follows from them.
type settings struct {
	rounds int
	short  bool
}

// pick returns full or, in a short run, short.
func pick[T any](s settings, full, short T) T {
	if s.short {
		return short
	}
	return full
}

// suites in the order in which they run.
var suites = []struct {
	name string
	run  func(context.Context, settings, *report) error
}{
	{"memory", runMemory},
	{"size", runSize},
	{"script", runScript},
	{"redis", runRedis},
	{"cluster", runCluster},
	{"growth", runGrowth},
	{"http", runHTTP},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", "", "comma-separated `suites`: "+strings.Join(suiteNames(), ", ")+" (default all)")
	rounds := flags.Int("rounds", 0, "alternating `rounds` per table (default 9, or 3 with -short)")
	short := flags.Bool("short", false, "fewer and smaller rounds")
	out := flags.String("o", "", "write the tables into `file`, between its bench markers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	s := settings{rounds: *rounds, short: *short}
	if s.rounds <= 0 {
		s.rounds = pick(s, 9, 3)
	}
	r := newReport(os.Stdout)
	r.machine(s)
	for _, suite := range suites {
		if !chosen[suite.name] {
			continue
		}
		if err := suite.run(ctx, s, r); err != nil {
			return fmt.Errorf("%s: %w", suite.name, err)
		}
	}
	r.verdict()
	if *out != "" {
		return r.writeInto(*out)
	}
	return nil
}

func choose(only string) (map[string]bool, error) {
	chosen := map[string]bool{}
	known := suiteNames()
	for _, name := range known {
		chosen[name] = only == ""
	}
	if only == "" {
		return chosen, nil
	}
	for name := range strings.SplitSeq(only, ",") {
		name = strings.TrimSpace(name)
		if _, ok := chosen[name]; !ok {
			return nil, fmt.Errorf("no suite %q; want any of %s", name, strings.Join(known, ", "))
		}
		chosen[name] = true
	}
	return chosen, nil
}

func suiteNames() []string {
	var names []string
	for _, suite := range suites {
		names = append(names, suite.name)
	}
	return names
}
