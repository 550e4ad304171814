// Package middleware holds the code that the middleware of package httplimit and the interceptors
// of package grpclimit share: limits per key without a configuration, and the wait times for denied
// requests.
package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/logsample"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// Config configures [Limits].
type Config struct {
	// Store is the store in which requests are counted if Stored is set. Otherwise New creates a
	// store in memory.
	Store  stint.Store
	Stored bool
	// Parts are the counts to which every request is charged. There must be at least one.
	Parts []Part
}

// Part is one of the counts to which a request is charged. The first part comes from By, and the
// others come from AndBy.
type Part struct {
	// Name is the name of the limits. In the first part, "" means "default".
	Name string
	// Options are the limits and, in the first part, other options of [stint.New].
	Options []stint.Option
	// Varies reports whether requests may have their own limits; see [Ask].
	Varies bool
	// Errs are the mistakes that the caller of [New] has found. New reports them.
	Errs []error
}

// Check adds a mistake to Errs if ok is false. format and args are as in [fmt.Errorf].
func (p *Part) Check(ok bool, format string, args ...any) {
	if !ok {
		p.Errs = append(p.Errs, fmt.Errorf(format, args...))
	}
}

// Limits applies limits per key to requests.
type Limits struct {
	// Rules holds a rule for each part, for use in verdicts.
	Rules []policy.Rule

	lim      *stint.Limiter
	scopes   []string // scope of each part
	failures logsample.Sampler
}

// Ask holds the key, the limits and the cost of a request for one part.
type Ask struct {
	// Key is the key of the request, or "" if it has none. Shared reports whether all callers share
	// this key; no caller can have such a key as its own.
	Key    string
	Shared bool
	// Limits are the request's own limits. If it has none, the limits of the part apply.
	Limits []stint.Limit
	Cost   int64
}

// memoryBytes is the maximum memory of a store that New creates. It is small, because a program may
// have many such stores, one per route.
const memoryBytes = 64 << 20

// Everyone is the subject that stands for all callers together. It begins with a zero byte, and
// [Limits.Decide] rejects such a key in an [Ask] that is not Shared.
const Everyone = "\x00everyone"

// ErrNoKey is the error of a request without a key.
var ErrNoKey = errors.New("stint: the request has no key to count it by; give By a key that every request has")

var errReserved = errors.New("the key begins with a zero byte, which is reserved; want one such as user:42")

// Must panics if err, the error of a constructor, is not nil. The panic lists all mistakes on one
// line.
func Must(constructor string, err error) {
	if err == nil {
		return
	}
	if invalid, ok := errors.AsType[*stint.InvalidError](err); ok {
		err = invalid.Err
	}
	panic(constructor + ": " + strings.ReplaceAll(err.Error(), "\n", "; "))
}

// New returns a Limits, or a [*stint.InvalidError] that describes every mistake.
func New(c Config) (*Limits, error) {
	l := &Limits{}
	if !c.Stored {
		memory, err := memorystore.New(memorystore.Config{MaxBytes: memoryBytes})
		if err != nil {
			return nil, &stint.InvalidError{Err: err}
		}
		// No caller can close this store, so it is closed after l is garbage collected.
		runtime.AddCleanup(l, func(m *memorystore.Store) { _ = m.Close() }, memory)
		c.Store = memory
	}
	var errs []error
	for i, part := range c.Parts {
		store, named := c.Store, syntax.IsName(part.Name)
		// The limiter of the first part decides for all parts. The limiters of the other parts only
		// check their options.
		if i > 0 {
			store = struct{ stint.Store }{}
		}
		lim, err := stint.New(store, part.Options...)
		var limits []stint.Limit
		if err == nil {
			limits = lim.Limits()
		}
		switch {
		case err != nil:
		case len(limits) == 0 && !part.Varies:
			err = errors.New("no limit; want one such as stint.PerMinute(100)")
		case i == 0 && part.Varies && c.Stored && part.Name == "":
			err = errors.New("requests have limits of their own, and a shared store counts them under a name; want WithName")
		case named && slices.ContainsFunc(c.Parts[:i], func(p Part) bool { return p.Name == part.Name }):
			err = errors.New("duplicate name; want a different one for each count")
		}
		if i == 0 {
			l.lim = lim
		}
		for _, err := range append(part.Errs, mistakes(err)...) {
			if i > 0 {
				err = fmt.Errorf("AndBy(%q): %w", part.Name, err)
			}
			errs = append(errs, err)
		}
		scope := part.Name
		if i == 0 && !c.Stored {
			scope = ""
		} else if scope == "" {
			scope = scopeOf(limits)
		}
		l.Rules = append(l.Rules, policy.Rule{Policy: cmp.Or(part.Name, "default"), Limits: limits, Index: -1})
		l.scopes = append(l.scopes, scope)
	}
	if errs != nil {
		return nil, &stint.InvalidError{Err: errors.Join(errs...)}
	}
	return l, nil
}

// mistakes returns the errors that err joins, or err itself if it joins none.
func mistakes(err error) []error {
	if joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		return joined.Unwrap()
	} else if err != nil {
		return []error{err}
	}
	return nil
}

// scopeOf returns the scope of limits that have no name: a list of the limits. In the same scope, a
// store treats limits with equal windows as the same limit. But different limits, such as five per
// minute for the login and a hundred per minute for other pages, must not share a count.
func scopeOf(limits []stint.Limit) string {
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = l.String()
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// Decide charges the costs of a request either to all parts or to none, and fills in the verdict.
// asks holds an Ask for each part, in the order of the parts. Decide leaves out a part that has no
// limits for the request. If no part has limits for it, the request is allowed. Decide logs
// failures.
func (l *Limits) Decide(ctx context.Context, asks []Ask, v *policy.Verdict) error {
	err := l.decide(ctx, asks, v)
	if err == nil {
		return nil
	}
	_, invalid := errors.AsType[*stint.InvalidError](err)
	// In all other cases, the limiter has logged the error.
	if invalid || errors.Is(err, ErrNoKey) || l.lim.Logger() == nil {
		l.failed(ctx, asks[0].Key, err)
	}
	return err
}

func (l *Limits) decide(ctx context.Context, asks []Ask, v *policy.Verdict) (err error) {
	v.Results = v.Results[:0]
	for i := range asks {
		a := &asks[i]
		switch {
		case a.Key == "":
			return ErrNoKey
		case !a.Shared && a.Key[0] == 0:
			return &stint.InvalidError{Err: errReserved}
		}
		limits := a.Limits
		if len(limits) == 0 {
			limits = l.Rules[i].Limits
		}
		if len(limits) > 0 {
			v.Results = append(v.Results, policy.Result{Rule: &l.Rules[i], Claim: stint.Claim{
				Subject: a.Key, Scope: l.scopes[i], Limits: limits, Cost: a.Cost, Shared: a.Shared}})
		}
	}
	d := &v.Decision
	switch {
	case len(v.Results) == 0:
		*d = stint.Decision{Allowed: true}
		return nil
	case len(asks) == 1 && l.plain(&asks[0]):
		*d, err = l.lim.Allow(ctx, asks[0].Key)
	default:
		claims := make([]stint.Claim, len(v.Results))
		for i := range v.Results {
			claims[i] = v.Results[i].Claim
		}
		*d, err = l.lim.Take(ctx, stint.Request{Claims: claims})
	}
	if err != nil {
		return err
	}
	v.Cost = asks[0].Cost
	for i := range v.Results {
		r := &v.Results[i]
		r.Usages = d.UsagesOf(i)
		r.Denied = !d.Allowed && !d.Unavailable && int(max(d.Denier, 1)) == i+1
	}
	return nil
}

// plain reports whether a request costs one unit of the limiter's own limits, so that Allow can
// decide it.
func (l *Limits) plain(a *Ask) bool {
	return a.Cost == 1 && !a.Shared && l.scopes[0] == "" && len(a.Limits) == 0
}

// Follow holds the place of a request under a concurrency limit until the returned function is
// called. The function is nil if the request holds no place.
func (l *Limits) Follow(ctx context.Context, v *policy.Verdict) func(policy.Outcome) {
	if v.Decision.Charge.IsZero() || v.Decision.Repeat || !slices.ContainsFunc(v.Results, holds) {
		return nil
	}
	_, release := l.lim.Hold(ctx, v.Decision)
	key := v.Decision.Key()
	return func(policy.Outcome) { l.failed(ctx, key, release()) }
}

func holds(r policy.Result) bool {
	return slices.ContainsFunc(r.Limits, func(l stint.Limit) bool {
		return l.Algorithm == stint.AlgorithmConcurrency
	})
}

// failed logs a failure, unless the client has disconnected or its deadline has passed.
func (l *Limits) failed(ctx context.Context, key string, err error) {
	if err == nil || errors.Is(err, context.Canceled) || ctx.Err() != nil {
		return
	}
	if unlogged, ok := l.failures.Allow(logsample.Few, time.Second); ok {
		cmp.Or(l.lim.Logger(), slog.Default()).Error("stint: a request could not be limited", "cause", err, "policy", l.Rules[0].Policy,
			"key", label.Short(strings.TrimPrefix(key, "\x00")), "limit", label.List(l.Rules[0].Limits),
			"unlogged", unlogged)
	}
}
