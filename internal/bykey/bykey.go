// Package bykey limits requests per key, without a configuration. It is what the middleware of
// package httplimit and the interceptors of package grpclimit have in common.
package bykey

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/logsample"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// Split returns the options of the type O, and the others, for [Config.Options].
func Split[O stint.Option](options []stint.Option) (own []O, others []stint.Option) {
	for _, o := range options {
		if mine, ok := o.(O); ok {
			own = append(own, mine)
		} else {
			others = append(others, o)
		}
	}
	return own, others
}

// Config sets up [Limits].
type Config struct {
	// Store is where to count if Stored is set; otherwise it is in memory and used by nothing else.
	Store  stint.Store
	Stored bool
	// Name is that of the limits, "default" if it is "".
	Name string
	// Logger receives failures.
	Logger *slog.Logger
	// Options are the limits, and other options of [stint.New].
	Options []stint.Option
}

// Limits are applied to every request.
type Limits struct {
	// Rule is what verdicts say of them.
	Rule policy.Rule

	lim      *stint.Limiter
	scope    string // in a store that was given
	holds    bool   // there is a concurrency limit
	logger   *slog.Logger
	failures logsample.Sampler
}

// memoryBytes is the size of stores that nobody has configured: there may be one per route.
const memoryBytes = 64 << 20

// Everyone is the subject of all callers together. It begins with a zero byte, and keys of callers
// do not: see [Limits.Decide].
const Everyone = "\x00everyone"

var errReserved = errors.New("the key begins with a zero byte, which is reserved; want one such as user:42")

// New reports every mistake.
func New(c Config) (*Limits, error) {
	l := &Limits{logger: c.Logger}
	if !c.Stored {
		memory, err := memorystore.New(memorystore.Config{MaxBytes: memoryBytes})
		if err != nil {
			return nil, err
		}
		// Nobody closes the store, so its goroutine ends when nothing can use it any more.
		runtime.AddCleanup(l, func(m *memorystore.Store) { _ = m.Close() }, memory)
		c.Store = memory
	}
	lim, err := stint.New(c.Store, c.Options...)
	if invalid, ok := errors.AsType[*stint.InvalidError](err); ok {
		err = invalid.Err
	}
	if err == nil && len(lim.Limits()) == 0 {
		err = errors.New("no limit; want one such as stint.PerMinute(100)")
	}
	if err != nil {
		return nil, err
	}
	l.lim = lim
	l.Rule = policy.Rule{Policy: cmp.Or(c.Name, "default"), Limits: lim.Limits(), Index: -1}
	if c.Stored {
		l.scope = cmp.Or(c.Name, scopeOf(l.Rule.Limits))
	}
	l.holds = slices.ContainsFunc(l.Rule.Limits, func(m stint.Limit) bool {
		return m.Algorithm == stint.AlgorithmConcurrency
	})
	return l, nil
}

// scopeOf is the scope of limits without a name. Others on the same store, such as five per minute
// for the login and a hundred for the rest, must not count together: a store takes limits with
// equal windows for the same limit.
func scopeOf(limits []stint.Limit) string {
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = l.String()
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// Decide charges one unit to a key, and fills in the verdict. Shared says that all callers have
// this key; nobody else can have it.
func (l *Limits) Decide(ctx context.Context, key string, shared bool, v *policy.Verdict) (err error) {
	if !shared && key[0] == 0 {
		return &stint.InvalidError{Err: errReserved}
	}
	d := &v.Decision
	claim := stint.Claim{Subject: key, Scope: l.scope, Limits: l.Rule.Limits, Cost: 1, Shared: shared}
	if claim.Shared || claim.Scope != "" {
		*d, err = l.lim.Take(ctx, stint.Request{Claims: []stint.Claim{claim}})
	} else {
		*d, err = l.lim.Allow(ctx, key)
	}
	if err != nil {
		return err
	}
	v.Cost = 1
	v.Results = append(v.Results[:0], policy.Result{
		Rule: &l.Rule, Claim: claim, Usages: d.Usages(), Denied: !d.Allowed && !d.Unavailable,
	})
	return nil
}

// Follow holds the place of a request until what it returns is called; nil if it has none.
func (l *Limits) Follow(ctx context.Context, v *policy.Verdict) func(policy.Outcome) {
	if !l.holds || v.Decision.Charge.IsZero() || v.Decision.Repeat {
		return nil
	}
	_, release := l.lim.Hold(ctx, v.Decision)
	key := v.Decision.Key()
	return func(policy.Outcome) { l.Failed(ctx, key, release()) }
}

// Failed logs a failure, unless the client has gone away or its time was up.
func (l *Limits) Failed(ctx context.Context, key string, err error) {
	if err == nil || errors.Is(err, context.Canceled) || ctx.Err() != nil {
		return
	}
	if unlogged, ok := l.failures.Allow(logsample.Few, time.Second); ok {
		l.logger.Error("stint: a request could not be limited", "cause", err, "policy", l.Rule.Policy,
			"key", label.Short(strings.TrimPrefix(key, "\x00")), "limit", label.List(l.Rule.Limits),
			"unlogged", unlogged)
	}
}
