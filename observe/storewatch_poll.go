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
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.poll(ctx, ask)
	}()
	w.end(func() {
		cancel()
		<-done
	})
}

// close ends the asking, for good.
func (w *storeWatch) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.end(nil)
}

// end ends what was begun by the last watch, and keeps what ends the next; if there is to be no
// next one, it ends that too.
func (w *storeWatch) end(next func()) {
	w.mu.Lock()
	last := w.stop
	w.stop = next
	if w.closed && next != nil {
		last, w.stop = next, nil
	}
	w.mu.Unlock()
	if last != nil {
		last()
	}
}

func (w *storeWatch) poll(ctx context.Context, ask probe) {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		w.ask(ctx, ask)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// ask asks the store once.
func (w *storeWatch) ask(ctx context.Context, ask probe) {
	limited, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	health, err := ask(limited)
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	idle := now.Sub(w.start.Add(time.Duration(w.succeeded.Load()))) >= quiet && now.Sub(w.failed) >= quiet
	if err != nil && health.Kind != "" { // what only the store knows is as it was
		health.Redis, health.Warnings = w.probed.Redis, w.probed.Warnings
		w.probed = health
	}
	switch {
	case err == nil:
		w.probed = health
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
	return kind == errkind.Timeout || kind == errkind.Unreachable || errors.Is(err, context.DeadlineExceeded)
}
