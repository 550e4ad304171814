// Command live shows limits at work: an API over HTTP behind the tiers of
// examples/tiers, callers with different habits, and workers that call somebody
// else's API, all in one process. The terminal shows everybody's windows, and the
// API is there for you to call too.
//
//	go run ./examples/live
//	go run ./examples/live -redis redis://localhost:6379   # in two terminals: they share the limits
//	go run ./examples/live -config stint.yaml              # change the file while it runs
//
// It runs until it is interrupted, or as long as -for says.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "live:", err)
		os.Exit(1)
	}
}

// run is the program until the context ends, which is no failure.
func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parse(args, out)
	if err != nil {
		return err
	}
	if s.length > 0 {
		// Not a deadline: calls that wait are refused at once if a deadline leaves no time for them.
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		defer stop()
		defer time.AfterFunc(s.length, stop).Stop()
	}
	d := &demo{}
	err = d.open(ctx, s)
	if err == nil {
		err = d.run(ctx, out)
	}
	return errors.Join(err, d.close())
}

// settings are what the flags say.
type settings struct {
	address, config, redis string
	length                 time.Duration
}

func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("live", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // mistakes are told once, by main
	flags.StringVar(&s.address, "http", "", "`address` to listen on (default "+usualAddress+", or a free port if that is taken)")
	flags.StringVar(&s.config, "config", "", "`file` with the limits, read again when it changes and on SIGHUP; without it they are those of examples/tiers")
	flags.StringVar(&s.redis, "redis", "", "`URL` of a Redis to share the limits through; without it they are kept in memory")
	flags.DurationVar(&s.length, "for", 0, "how long to run; 0 means until interrupted")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(out)
		flags.PrintDefaults()
		return s, err
	case err != nil:
		return s, fmt.Errorf("%w; see -help", err)
	case flags.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q; see -help", flags.Arg(0))
	case s.length < 0:
		return s, fmt.Errorf("-for %v: want a time such as 30s, or 0 to run until interrupted", s.length)
	}
	return s, nil
}
