// Package contest is the framework of the programs that compare stint with other limiters: suites
// chosen on the command line, contenders that take turns, tables that are readable in a terminal
// and in a document, and bars, the performance goals of stint, which are judged at the end. Missing
// a bar is a result, not a failure.
package contest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// Settings holds the flags that determine how to measure.
type Settings struct {
	Rounds int
	Short  bool
}

// Pick returns full or, in a short run, short.
func Pick[T any](s Settings, full, short T) T {
	if s.Short {
		return short
	}
	return full
}

// Suite is a part of a run that can be selected by name.
type Suite struct {
	Name string
	Run  func(context.Context, Settings, *Report) // Must and OK end the suite on an error
}

// Command runs suites and reports their results.
type Command struct {
	Name   string
	Suites []Suite // in the order in which they run
	// Flags, if set, adds the command's own flags.
	Flags func(*flag.FlagSet)
	// About, if set, returns more text about the run for the first line of the report.
	About func(Settings) string
}

// Run executes the command with these arguments. It writes the report to out as it goes and, with
// -o, to a file.
func (c Command) Run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	only := flags.String("only", "", "comma-separated `suites`: "+strings.Join(c.names(), ", ")+" (default all)")
	rounds := flags.Int("rounds", 0, "alternating `rounds` per row (default 9, or 3 with -short)")
	short := flags.Bool("short", false, "fewer and smaller rounds")
	file := flags.String("o", "", "write the tables into `file`, between its bench markers")
	check := flags.String("check", "", "fail if a ratio is more than a fifth worse than in the `file` in three attempts")
	if c.Flags != nil {
		c.Flags(flags)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := c.choose(*only)
	if err != nil {
		return err
	}
	s := Settings{Rounds: *rounds, Short: *short}
	if s.Rounds <= 0 {
		s.Rounds = Pick(s, 9, 3)
	}
	if *check != "" {
		return c.check(ctx, s, chosen, *check, out)
	}
	r, err := c.measure(ctx, s, chosen, out)
	if err == nil && *file != "" {
		err = Replace(*file, "bench", r.text.String())
	}
	return err
}

// measure runs suites and reports their results.
func (c Command) measure(ctx context.Context, s Settings, suites []Suite, out io.Writer) (*Report, error) {
	r := NewReport(out)
	about := ""
	if c.About != nil {
		about = "; " + c.About(s)
	}
	r.begin(s, about)
	for _, suite := range suites {
		if err := Catch(func() { suite.Run(ctx, s, r) }); err != nil {
			return nil, fmt.Errorf("%s: %w", suite.Name, err)
		}
	}
	r.verdict()
	return r, nil
}

// attempts is the maximum number of times that a value is measured if it is worse than recorded.
// Other load on the machine can make a value worse, and once did so twice in succession, in one row
// of thirty.
const attempts = 3

// check returns an error if a value is worse than recorded in a document in every attempt. It
// repeats only the suites that have such values.
func (c Command) check(ctx context.Context, s Settings, suites []Suite, path string, out io.Writer) error {
	var drops map[string]string
	for i := range attempts {
		r, err := c.measure(ctx, s, suites, out)
		if err != nil {
			return err
		}
		now, err := r.Check(path)
		if err != nil {
			return err
		}
		maps.DeleteFunc(now, func(what, _ string) bool { return i > 0 && drops[what] == "" })
		if drops = now; len(drops) == 0 {
			return nil
		}
		suites = slices.DeleteFunc(slices.Clone(suites), func(suite Suite) bool {
			for what := range drops {
				if strings.HasPrefix(what, suite.Name+":") {
					return false
				}
			}
			return true
		})
	}
	return fmt.Errorf("worse than in %s by more than a fifth, %d times:\n  %s", path, attempts,
		strings.Join(slices.Sorted(maps.Values(drops)), "\n  "))
}

// choose returns the suites with the given names, in the order of the command. The names are
// separated by commas. Without names, it returns all suites.
func (c Command) choose(only string) ([]Suite, error) {
	if only == "" {
		return c.Suites, nil
	}
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(only, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(c.names(), name) {
			return nil, fmt.Errorf("unknown suite %q; want any of %s", name, strings.Join(c.names(), ", "))
		}
		wanted[name] = true
	}
	var chosen []Suite
	for _, suite := range c.Suites {
		if wanted[suite.Name] {
			chosen = append(chosen, suite)
		}
	}
	return chosen, nil
}

func (c Command) names() []string {
	var names []string
	for _, suite := range c.Suites {
		names = append(names, suite.Name)
	}
	return names
}

// Main implements a program's main function: it runs a command until it is done or a signal ends
// it, and exits with 1 if the command fails.
func Main(name string, run func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
