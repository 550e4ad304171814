// Command server measures stint's daemon beside others: programs started for the purpose on this machine, all asked by
// the same driver, in turns. Medians are compared, and the bars that stint sets itself are checked at the end. Missing a
// bar is a result, not a failure.
//
//	make bench-server                                  everything, about a quarter of an hour
//	make bench-server BENCHFLAGS="-short"              everything, coarser, a few minutes
//	make bench-server BENCHFLAGS="-only rls,gateway"   some suites
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
	"time"

	"github.com/stint-limiter/stint/bench/server/document"
)

// settings are what the flags say, and what follows from them.
type settings struct {
	rounds    int
	short     bool
	stint     string
	ratelimit string
}

// pick returns full or, in a short run, short.
func pick[T any](s settings, full, short T) T {
	if s.short {
		return short
	}
	return full
}

// length is how long a contender is asked in a round.
func (s settings) length() time.Duration { return pick(s, time.Second, 300*time.Millisecond) }

// suites in the order in which they run.
var suites = []struct {
	name string
	run  func(context.Context, settings, *report) error
}{
	{"rls", runRLS},
	{"gateway", runGateway},
	{"api", runAPI},
	{"memory", runMemory},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	defer stop()
	command, args := run, os.Args[1:]
	if len(args) > 0 && args[0] == bareCommand {
		command, args = runBare, args[1:]
	}
	if err := command(ctx, args); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench-server:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench-server", flag.ContinueOnError)
	only := flags.String("only", "", "comma-separated `suites`: "+strings.Join(suiteNames(), ", ")+" (default all)")
	rounds := flags.Int("rounds", 0, "alternating `rounds` per row (default 9, or 3 with -short)")
	short := flags.Bool("short", false, "fewer and shorter rounds")
	stint := flags.String("stint", "stint", "the `program` to measure")
	ratelimit := flags.String("ratelimit", "", "the `program` of envoyproxy/ratelimit; without it the others are measured alone")
	out := flags.String("o", "", "write the tables into `file`, between its bench markers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	s := settings{rounds: *rounds, short: *short, stint: *stint, ratelimit: *ratelimit}
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
		return document.Replace(*out, "bench", r.text.String())
	}
	return nil
}

func choose(only string) (map[string]bool, error) {
	known := suiteNames()
	chosen := map[string]bool{}
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
