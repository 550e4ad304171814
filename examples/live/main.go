// Command live shows limits at work in the terminal: four callers with different
// habits under the same limits, their windows drawn ten times a second.
//
//	go run ./examples/live
//	go run ./examples/live -redis redis://localhost:6379   # in two terminals: they share the limits
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "live:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("live", flag.ContinueOnError)
	redis := flags.String("redis", "", "`URL` of a Redis to share the limits through; without it they are kept in memory")
	length := flags.Duration("for", 30*time.Second, "how long to run; 0 means until interrupted")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; see -help", flags.Arg(0))
	}
	store, closeStore, err := openStore(ctx, *redis)
	if err != nil {
		return err
	}
	defer closeStore()
	if *length > 0 {
		// Not a deadline: Wait refuses at once what a deadline leaves no time for.
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer time.AfterFunc(*length, cancel).Stop()
	}
	inbound, err := stint.New(store, stint.Per(10, 5*time.Second).WithBurst(2), stint.PerMinute(100))
	if err != nil {
		return err
	}
	outbound, err := stint.New(store, stint.PerSecond(4))
	if err != nil {
		return err
	}
	callers := []*caller{
		{name: "user:alice", habit: "one a second", limiter: inbound, pause: time.Second},
		{name: "user:bob", habit: "25 at once, every 10 s", limiter: inbound, burst: 25, pause: 10 * time.Second},
		{name: "user:mallory", habit: "50 a second", limiter: inbound, pause: 20 * time.Millisecond},
		{name: "igdb:api", habit: "six workers that wait", limiter: outbound, workers: 6, wait: true},
	}
	var wg sync.WaitGroup
	for _, c := range callers {
		for range max(1, c.workers) {
			wg.Go(func() { c.call(ctx) })
		}
	}
	draw(ctx, out, callers)
	wg.Wait()
	for _, c := range callers {
		if err := c.failure(); err != nil {
			return err
		}
	}
	return nil
}

func openStore(ctx context.Context, url string) (stint.Store, func(), error) {
	if url != "" {
		redis, err := redisstore.Open(ctx, url)
		if err != nil {
			return nil, nil, err
		}
		s, err := resilience.New(redis, resilience.Config{})
		if err != nil {
			redis.Close()
			return nil, nil, err
		}
		return s, func() { s.Close(); redis.Close() }, nil
	}
	s, err := memorystore.New(memorystore.Config{})
	if err != nil {
		return nil, nil, err
	}
	return s, func() { _ = s.Close() }, nil
}

// caller makes requests in its own habit and counts what came of them.
type caller struct {
	name, habit string
	limiter     *stint.Limiter
	burst       int
	workers     int
	pause       time.Duration
	wait        bool

	mu              sync.Mutex
	allowed, denied int
	err             error
}

// call makes requests until the context ends or the store fails.
func (c *caller) call(ctx context.Context) {
	for ctx.Err() == nil {
		for range max(1, c.burst) {
			if !c.once(ctx) {
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.pause):
		}
	}
}

// once makes one request and reports whether to go on.
func (c *caller) once(ctx context.Context) bool {
	ask := c.limiter.Allow
	if c.wait {
		ask = c.limiter.Wait
	}
	d, err := ask(ctx, c.name)
	var denied *stint.DeniedError
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil && !errors.As(err, &denied):
		c.err = err
		return false
	case d.Allowed:
		c.allowed++
	default:
		c.denied++
	}
	return true
}

func (c *caller) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// draw shows every caller's windows until the context ends.
func draw(ctx context.Context, out io.Writer, callers []*caller) {
	tty := isTerminal(out)
	every := time.Second
	if tty {
		every = 100 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	first := true
	for {
		var b strings.Builder
		if tty && !first {
			fmt.Fprintf(&b, "\x1b[%dA", len(callers)+1)
		}
		fmt.Fprintf(&b, "%-14s %-24s %8s %8s  %s\x1b[K\n", "subject", "habit", "allowed", "denied", "windows")
		for _, c := range callers {
			b.WriteString(c.line(ctx) + "\x1b[K\n")
		}
		text := b.String()
		if !tty {
			text = strings.ReplaceAll(text, "\x1b[K", "")
		}
		fmt.Fprint(out, text)
		first = false
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// line is one caller's row: what it did, and how full its windows are.
func (c *caller) line(ctx context.Context) string {
	states, err := c.limiter.Stats(context.WithoutCancel(ctx), c.name)
	c.mu.Lock()
	defer c.mu.Unlock()
	row := fmt.Sprintf("%-14s %-24s %8d %8d ", c.name, c.habit, c.allowed, c.denied)
	if err != nil {
		return row + " " + err.Error()
	}
	for i := range states {
		s := &states[i]
		capacity := s.Limit.Capacity()
		filled := int(min(s.Used, capacity) * 10 / capacity)
		row += fmt.Sprintf(" [%s%s] %d of %s", strings.Repeat("#", filled), strings.Repeat(".", 10-filled), s.Used, s.Limit)
	}
	return row
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
