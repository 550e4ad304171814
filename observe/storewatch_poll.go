package observe

import (
	"context"
	"errors"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/label"
)

// probe gets the health of a store; see [Monitor.WatchStore].
type probe = func(ctx context.Context) (StoreHealth, error)

// watch probes the store every few seconds, until close is called. A new probe replaces the
// previous one.
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

// close stops probing permanently, and waits until no probe is running.
func (w *storeWatch) close() {
	w.mu.Lock()
	w.end()
	w.mu.Unlock()
	w.polls.Wait()
}

func (w *storeWatch) poll(ctx context.Context, ask probe) {
	for ctx.Err() == nil {
		w.ask(ctx, ask)
		select {
		case <-ctx.Done():
		case <-time.After(askAgain):
		}
		if w.failing() {
			continue
		}
		select {
		case <-ctx.Done():
		case <-w.hurry:
		case <-time.After(probeEvery - askAgain):
		}
	}
}

func (w *storeWatch) failing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.since.IsZero() || !w.lostSince.IsZero()
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
	if err != nil && health.Kind != "" { // keep the last values that only the store can report
		health.Redis, health.Warnings, health.At = w.probed.Redis, w.probed.Warnings, w.probed.At
		health.Lost = w.probed.Lost
		w.probed = health
	}
	switch {
	case err == nil:
		w.probed, w.probed.At, w.answered = health, now, now
		w.nodes(now)
		if idle && w.trusted() {
			w.up()
		}
	case !unanswered(err):
		w.lastError, w.errorAt = label.Line(err.Error()), now
	case idle:
		if errkind.Of(err) == stint.KindOther { // the probe timed out
			err = &stint.StoreError{Op: "info", Kind: stint.KindTimeout, Err: err}
		}
		w.fails(err, now)
	}
}

// nodes records whether nodes are lost, and since when. The caller holds the lock.
func (w *storeWatch) nodes(now time.Time) {
	switch {
	case len(w.probed.Lost) == 0:
		w.lostSince = time.Time{}
	case w.lostSince.IsZero():
		w.lostSince = now
	}
}

// unanswered reports whether the error of a probe means that the store did not answer.
func unanswered(err error) bool {
	kind := errkind.Of(err)
	return kind == stint.KindTimeout || kind == stint.KindUnreachable ||
		kind == stint.KindOther && errors.Is(err, context.DeadlineExceeded)
}
