package simulate

import (
	"context"
	"log/slog"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/policy"
)

// replayer replays requests through one configuration: a guard with a store in virtual time, and a
// counter of its verdicts.
type replayer struct {
	guard   *policy.Guard
	verdict policy.Verdict // the verdict on the last request
	counter *counter
	sizer   *sizer

	// unsettled is true if a response header settles the cost of some requests. Logs do not contain
	// such headers.
	unsettled bool
}

func (r *run) newReplayer(set *policy.Set) (*replayer, error) {
	store, err := r.newStore()
	if err != nil {
		return nil, err
	}
	sizer, o := newSizer(), r.options
	guard, err := policy.NewGuard(&countingStore{Timeless{store}, sizer}, set,
		policy.GuardConfig{Logger: slog.New(slog.DiscardHandler), EnforceAll: o.EnforceAll, Overrides: o.Overrides})
	return &replayer{guard: guard, counter: newCounter(set, o, store, sizer), sizer: sizer}, err
}

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

// Timeless is a store that ignores the deadlines of its calls. Guards set these deadlines by the
// real clock, not by the times in the log. On a slow machine, some answers for rules in shadow and
// some settlements would miss them and be lost.
type Timeless struct{ stint.Store }

// Take implements [stint.Store].
func (s Timeless) Take(_ context.Context, r stint.Request) (stint.Decision, error) {
	return s.Store.Take(context.Background(), r)
}

// Amend implements [stint.Store].
func (s Timeless) Amend(_ context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	return s.Store.Amend(context.Background(), c, a)
}
