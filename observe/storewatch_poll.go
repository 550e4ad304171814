package observe

import (
	"context"
	"errors"
	"time"

	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/label"
)

// probe asks a store for its health; see [Monitor.WatchStore].
type probe = func(ctx context.Context) (StoreHealth, error)

// watch asks the store every few seconds from now on, until close. It replaces an earlier probe.
func (w *storeWatch) watch(ask probe) {
	ctx, cancel := context.WithCancel(w.life)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop()
	w.stop = cancel
	if ctx.Err() == nil {
		w.polls.Go(func() { w.poll(ctx, ask) })
	}
}

// close ends the asking, for good.
func (w *storeWatch) close() {
	w.mu.Lock()
	w.end()
	w.mu.Unlock()
	w.polls.Wait()
}

func (w *storeWatch) poll(ctx context.Context, ask probe) {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		w.ask(ctx, ask)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func (w *storeWatch) ask(ctx context.Context, ask probe) {
	limited, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	health, err := ask(limited)
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	idle := now.Sub(w.start.Add(time.Duration(w.succeeded.Load()))) >= quiet && now.Sub(w.failed) >= quiet
	if err != nil && health.Kind != "" { // what only the store knows is as it was
		health.Redis, health.Warnings, health.At = w.probed.Redis, w.probed.Warnings, w.probed.At
		w.probed = health
	}
	switch {
	case err == nil:
		w.probed, w.probed.At = health, now
		if idle && w.trusted() {
			w.up()
		}
	case !unanswered(err):
		w.lastError, w.errorAt = label.Line(err.Error()), now
	case idle:
		w.fails(err, now)
	}
}

// unanswered reports whether an error of a probe means that the store does not answer.
func unanswered(err error) bool {
	kind := errkind.Of(err)
	return kind == errkind.Timeout || kind == errkind.Unreachable ||
		kind == errkind.Other && errors.Is(err, context.DeadlineExceeded)
}
