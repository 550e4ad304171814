package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// demo is all that runs: our API behind its limits, and a stand-in for somebody
// else's that we call.
type demo struct {
	store  stint.Store
	book   ledger
	guard  *policy.Guard
	apis   *outbound.Registry
	source *source
	ours   *server
	theirs *server

	closers []func() error
}

// open makes everything ready. What was made before a mistake is left for close.
func (d *demo) open(ctx context.Context, s settings) error {
	logger := slog.New(slog.DiscardHandler) // the screen tells all
	if err := d.openStore(ctx, s.redis, logger); err != nil {
		return err
	}
	set, err := load(s.config)
	if err != nil {
		return err
	}
	if d.guard, err = policy.NewGuard(d.store, set, policy.GuardConfig{Observer: &d.book, Logger: logger}); err != nil {
		return err
	}
	if d.apis, err = outbound.New(d.store, set.Outbound(), outbound.Config{Logger: logger}); err != nil {
		return err
	}
	d.closers = append(d.closers, func() error { d.apis.Close(); return nil })
	if d.source, err = newSource(s.config, d.guard, d.apis, logger); err != nil {
		return err
	}
	if d.theirs, err = serve(anyAddress, newIGDB()); err != nil {
		return err
	}
	d.closers = append(d.closers, d.theirs.close)
	if d.ours, err = serve(s.address, httplimit.New(d.guard)(newAPI())); err != nil {
		return fmt.Errorf("-http: %w", err)
	}
	d.closers = append(d.closers, d.ours.close)
	return nil
}

func (d *demo) openStore(ctx context.Context, url string, logger *slog.Logger) error {
	if url == "" {
		memory, err := memorystore.New(memorystore.Config{})
		if err != nil {
			return err
		}
		d.store = memory
		d.closers = append(d.closers, memory.Close)
		return nil
	}
	redis, err := redisstore.Open(ctx, url, redisstore.WithLogger(logger))
	if err != nil {
		return err
	}
	d.closers = append(d.closers, redis.Close)
	stack, err := resilience.New(redis, resilience.Config{Logger: logger})
	if err != nil {
		return err
	}
	d.store = stack
	d.closers = append(d.closers, stack.Close)
	return nil
}

// close ends what open made, the last of it first.
func (d *demo) close() error {
	var errs []error
	for _, f := range slices.Backward(d.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// run lets everybody call and shows what comes of it, until the context ends or
// something fails.
func (d *demo) run(ctx context.Context, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	client := newClient()
	defer client.CloseIdleConnections()

	var work sync.WaitGroup
	work.Go(func() { d.source.run(ctx) })
	all := newCallers()
	failures := make([]error, len(all)+1)
	for i, c := range all {
		work.Go(func() {
			failures[i] = c.run(ctx, client, d.ours.url)
			stop()
		})
	}
	if igdb, err := d.apis.API("igdb"); err == nil { // another configuration need not have it
		for range workers {
			work.Go(func() { callAPI(ctx, igdb, d.theirs.url) })
		}
	}
	t := &table{store: d.store, guard: d.guard, book: &d.book, apis: d.apis, callers: all, peer: d.ours.peer}
	s := newScreen(out, guide(d.ours.url))
	failures[len(all)] = s.run(ctx, func() []string { return append(t.lines(ctx), d.source.String()) })
	stop()
	work.Wait()
	return errors.Join(failures...)
}
