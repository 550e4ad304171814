package simulate

import (
	"context"
	"log/slog"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// replayer replays requests through one configuration: a guard over a store in virtual time, and a
// counter of its verdicts.
type replayer struct {
	store   *memorystore.Store
	guard   *policy.Guard
	verdict policy.Verdict // the verdict on the last request
	counter *counter
	sizer   *sizer

	unsettled bool // whether a response header, which logs do not have, settles some requests
}

func newReplayer(set *policy.Set, o *Options, c *clock) (*replayer, error) {
	store, err := newStore(o, c)
	if err != nil {
		return nil, err
	}
	sizer := newSizer()
	guard, err := policy.NewGuard(&countingStore{Timeless{store}, sizer}, set,
		policy.GuardConfig{Logger: slog.New(slog.DiscardHandler), EnforceAll: o.EnforceAll, Overrides: o.Overrides})
	if err != nil {
		_ = store.Close()
		return nil, err
	}
	return &replayer{store: store, guard: guard, counter: newCounter(set, o, store, sizer), sizer: sizer}, nil
}

// Bounds for the stores. A subject may have several counts, each with its own windows.
const (
	countsPerSubject = 8
	bytesPerSubject  = 4 << 10
	// maxSubjects is the maximum of Options.MaxSubjects. With it, the bounds above do not exceed
	// the bounds of a memory store.
	maxSubjects = 1 << 27
)

// newStore returns a store in virtual time. The store has room for at least the default number of
// subjects, because unused room costs nothing.
func newStore(o *Options, c *clock) (*memorystore.Store, error) {
	subjects := max(o.MaxSubjects, DefaultMaxSubjects)
	return memorystore.New(memorystore.Config{
		MaxSubjects: countsPerSubject * subjects,
		MaxBytes:    bytesPerSubject * int64(subjects),
		Now:         c.now,
	})
}

func (r *replayer) close() { _ = r.store.Close() }

// replay decides a request and counts the verdict. It settles the request at once, because logs do
// not record how long a request took.
func (r *replayer) replay(in *policy.Input, record *accesslog.Record, now int64) error {
	ctx := context.Background()
	v := &r.verdict
	r.sizer.begin(now)
	if err := r.guard.Decide(ctx, in, v); err != nil {
		return err
	}
	r.counter.add(v, record.Method, now)
	if record.ClientName != "" {
		r.counter.nameHost(record.ClientName)
	}
	if follow := r.guard.Follow(ctx, v); follow != nil {
		r.unsettled = r.unsettled || v.SettleHeader != ""
		follow(outcomeOf(record))
	}
	return nil
}

// Timeless is a store without deadlines. A guard waits for the store by the real clock, not by the
// log's. With deadlines, a slow machine would lose some answers for rules in shadow, and some
// settlements.
type Timeless struct{ stint.Store }

// Take implements [stint.Store].
func (s Timeless) Take(_ context.Context, r stint.Request) (stint.Decision, error) {
	return s.Store.Take(context.Background(), r)
}

// Amend implements [stint.Store].
func (s Timeless) Amend(_ context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	return s.Store.Amend(context.Background(), c, a)
}
