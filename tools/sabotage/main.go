// Command sabotage measures tests: it makes small changes to the product, one at a time, and counts
// how many of these mutants the tests detect. Run it with make sabotage; docs/testing.md explains
// it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, targets); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "sabotage:", err)
		}
		stop()
		os.Exit(1)
	}
}

// run runs the program with these arguments and targets.
func run(ctx context.Context, args []string, out io.Writer, targets []target) error {
	flags := flag.NewFlagSet("sabotage", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), `Changes the product in small ways, one at a time, and runs the tests of what was changed.
Prints the changes that no test noticed and, for each package, the share that was caught.
The same seed makes the same changes in the same order.

`)
		flags.PrintDefaults()
		fmt.Fprintf(flags.Output(), "\npackages: %s\n", strings.Join(names(targets), " "))
	}
	dir := flags.String("C", ".", "the root of the module")
	seed := flags.Uint64("seed", 1, "selects the changes to make")
	n := flags.Int("n", 20, "maximum number of changes per package")
	only := flags.String("only", "", "comma-separated packages to change (default all)")
	match := flags.String("match", "", "make only changes whose text in the output of -list matches this regular expression")
	budget := flags.Duration("budget", time.Hour, "stop after this time, and abandon the changes that are being tested")
	parallel := flags.Int("parallel", 2, "number of changes to test at the same time")
	verbose := flags.Bool("v", false, "also print the changes that were caught, and by which test")
	list := flags.Bool("list", false, "print the changes without testing them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	matching, err := regexp.Compile(*match)
	if err != nil {
		return err
	}
	root, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	if *only != "" {
		wanted := strings.Split(*only, ",")
		for _, name := range wanted {
			if !slices.Contains(names(targets), name) {
				return fmt.Errorf("unknown package %q; want one of: %s", name, strings.Join(names(targets), " "))
			}
		}
		targets = slices.DeleteFunc(slices.Clone(targets), func(t target) bool {
			return !slices.Contains(wanted, t.name)
		})
	}
	var runs []*targetRun
	for _, t := range targets {
		all, err := t.mutations(root, *seed)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(m mutation) bool { return !matching.MatchString(m.String()) })
		runs = append(runs, &targetRun{target: t, left: all, known: len(all)})
		if *list {
			for _, m := range all[:min(*n, len(all))] {
				fmt.Fprintln(out, m)
			}
		}
	}
	if *list {
		return nil
	}

	t := &tester{root: root, out: out, verbose: *verbose}
	if t.luac, err = luac(); err != nil && slices.ContainsFunc(runs, (*targetRun).hasLua) {
		return err
	}
	if t.temp, err = os.MkdirTemp("", "sabotage"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(t.temp) }()
	limited, cancel := context.WithTimeout(ctx, *budget)
	defer cancel()
	err = t.run(limited, runs, *n, *parallel)
	report(out, runs, *seed)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		fmt.Fprintf(out, "\nThe budget of %v is used up.\n", *budget)
		return nil
	}
	return err
}

func names(targets []target) []string {
	var names []string
	for _, t := range targets {
		names = append(names, t.name)
	}
	return names
}

// luac returns the path of the Lua compiler.
func luac() (string, error) {
	for _, name := range []string{"luac5.1", "luac"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("luac5.1 or luac not found; install lua5.1, as make setup does")
}

// targetRun is the state of a target while its mutants are tested. The tester's lock guards it.
type targetRun struct {
	target
	known  int        // number of mutations
	left   []mutation // mutations that have not been tested
	stages []measured

	tested, caught, timeouts int
}

func (r *targetRun) hasLua() bool { return strings.HasSuffix(r.files[0], ".lua") }

// tester tests the mutants of all targets. The files of the module stay unchanged: the go command
// reads a mutant, even of an embedded file, with its -overlay flag.
type tester struct {
	root    string // root directory of the module
	temp    string // directory for mutants and for files that their tests leave behind
	luac    string // path of the Lua compiler; "" if there is none
	out     io.Writer
	verbose bool
	mu      sync.Mutex
}

// run tests n mutants of each target. It tests the first mutant of each target, then the second one
// of each, and so on, so that all targets have an equal share when the time runs out.
func (t *tester) run(ctx context.Context, runs []*targetRun, n, parallel int) error {
	var stages []stage
	for _, r := range runs {
		for _, s := range r.target.stages {
			if !slices.Contains(stages, s) {
				stages = append(stages, s)
			}
		}
	}
	all := make([]measured, len(stages))
	err := inParallel(ctx, parallel, len(stages), func(ctx context.Context, i int) (err error) {
		all[i], err = t.measure(ctx, stages[i])
		return err
	})
	if err != nil {
		return err
	}
	for _, r := range runs {
		for _, s := range r.target.stages {
			r.stages = append(r.stages, all[slices.Index(stages, s)])
		}
	}
	return inParallel(ctx, parallel, n*len(runs), func(ctx context.Context, i int) error {
		return t.next(ctx, runs[i%len(runs)])
	})
}

// inParallel calls do with each number from 0 to n-1. At most parallel calls run at the same time.
// It stops when a call fails or the context ends.
func inParallel(ctx context.Context, parallel, n int, do func(ctx context.Context, i int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	var started atomic.Int64
	for range parallel {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(started.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					stop(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// next tests the target's next mutant that compiles.
func (t *tester) next(ctx context.Context, r *targetRun) error {
	for {
		t.mu.Lock()
		if len(r.left) == 0 {
			t.mu.Unlock()
			return nil
		}
		m := r.left[0]
		r.left = r.left[1:]
		t.mu.Unlock()
		o, by, err := t.try(ctx, m, r.stages)
		if err != nil {
			return err
		}
		if o != invalid {
			t.record(r, m, o, by)
			return nil
		}
	}
}

// record counts a mutant and prints it if it survived or timed out, or in verbose mode.
func (t *tester) record(r *targetRun, m mutation, o outcome, by string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.tested++
	if o != survived {
		r.caught++
	}
	if o == timedOut {
		r.timeouts++
	}
	if o == caught && !t.verbose {
		return
	}
	if by != "" {
		by = " | " + by
	}
	fmt.Fprintf(t.out, "%-8v %v%s\n", o, m, by)
}

// report prints the share of caught mutants by package, as a Markdown table.
func report(out io.Writer, runs []*targetRun, seed uint64) {
	fmt.Fprintf(out, "\nSeed %d.\n\n| package | possible | tested | caught | of these by a timeout | survived | share |\n|---|---|---|---|---|---|---|\n", seed)
	all := &targetRun{target: target{name: "all"}}
	row := func(r *targetRun) {
		share := "–"
		if r.tested > 0 {
			share = fmt.Sprintf("%d%%", 100*r.caught/r.tested)
		}
		fmt.Fprintf(out, "| %s | %d | %d | %d | %d | %d | %s |\n",
			r.name, r.known, r.tested, r.caught, r.timeouts, r.tested-r.caught, share)
	}
	for _, r := range runs {
		row(r)
		all.known, all.tested, all.caught, all.timeouts = all.known+r.known, all.tested+r.tested,
			all.caught+r.caught, all.timeouts+r.timeouts
	}
	row(all)
}
