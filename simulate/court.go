package simulate

import (
	"context"
	"log/slog"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/simulate/accesslog"
)

// court is a guard over a store in virtual time, and the count of what it decided.
type court struct {
	store   *memorystore.Store
	takes   *takes
	guard   *policy.Guard
	verdict policy.Verdict // on the last request
	tally   *tally

	unsettled bool // the true cost of some requests is in a header of their responses
}

func newCourt(set *policy.Set, o *Options, c *clock) (*court, error) {
	store, err := newStore(o, c)
	if err != nil {
		return nil, err
	}
	shadow := false
	for _, rule := range set.Rules() {
		shadow = shadow || !o.EnforceAll && rule.Enforced() < 1
	}
	takes := &takes{store: store, keep: shadow}
	guard, err := policy.NewGuard(takes, set, policy.GuardConfig{Logger: slog.New(slog.DiscardHandler), EnforceAll: o.EnforceAll})
	if err != nil {
		_ = store.Close()
		return nil, err
	}
	return &court{store: store, takes: takes, guard: guard, tally: newTally(set, o, store)}, nil
}

// Bounds of stores: a subject may have several counts, each with its windows.
const (
	countsPerSubject = 8
	bytesPerSubject  = 4 << 10
	// maxSubjects is the largest that Options.MaxSubjects may be, for a store has bounds too.
	maxSubjects = 1 << 27
)

func newStore(o *Options, c *clock) (*memorystore.Store, error) {
	return memorystore.New(memorystore.Config{
		// A few subjects do not need much, but then it costs nothing to allow it.
		MaxSubjects: countsPerSubject * max(o.MaxSubjects, DefaultMaxSubjects),
		MaxBytes:    bytesPerSubject * int64(max(o.MaxSubjects, DefaultMaxSubjects)),
		Now:         c.now,
	})
}

func (c *court) close() { _ = c.store.Close() }

// judge decides on a request and sees to what its response brings, at once: logs do not say how long that took.
func (c *court) judge(in *policy.Input, r *accesslog.Record, now int64) error {
	ctx := context.Background()
	v := &c.verdict
	c.takes.list = c.takes.list[:0]
	if err := c.guard.Decide(ctx, in, v); err != nil {
		return err
	}
	c.tally.add(v, c.shadow(), r.Method, now)
	if after := c.guard.Follow(ctx, v); after != nil {
		c.unsettled = c.unsettled || v.SettleHeader() != ""
		after(outcomeOf(r))
	}
	return nil
}

func outcomeOf(r *accesslog.Record) policy.Outcome {
	return policy.Outcome{Status: r.Status, Bytes: r.Bytes}
}

// shadow returns what was asked about rules in shadow: that comes after the question about those that are not.
func (c *court) shadow() []take {
	if list := c.takes.list; len(list) > 0 && len(c.verdict.Rules()) > 0 {
		return list[1:]
	}
	return c.takes.list
}

// takes is a store that remembers what a request was asked about, and that no deadline concerns: guards give what has no
// consequences little time, by a clock that is not the log's.
type takes struct {
	store *memorystore.Store
	keep  bool
	list  []take // since it was last emptied, if kept
}

// take is a question about one claim, and its answer.
type take struct {
	claim    stint.Claim
	decision stint.Decision
}

// Take implements [stint.Store].
func (t *takes) Take(_ context.Context, r stint.Request) (stint.Decision, error) {
	d, err := t.store.Take(context.Background(), r)
	if t.keep && err == nil {
		t.list = append(t.list, take{r.Claim, d})
	}
	return d, err
}

// Amend implements [stint.Store].
func (t *takes) Amend(_ context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	return t.store.Amend(context.Background(), c, a)
}

// Command implements [stint.Store].
func (t *takes) Command(_ context.Context, c stint.Command) error {
	return t.store.Command(context.Background(), c)
}
