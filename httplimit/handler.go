package httplimit

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/logsample"
	"github.com/stint-limiter/stint/policy"
)

// Limit returns a handler that holds the requests to next to a limiter, without any configuration.
// Each costs one unit. The key says whose requests are counted together; it has no default, because
// one that was forgotten would have everybody share one bucket.
//
// Under a concurrency limit a request has its place until next returns.
//
// An argument that is nil is a mistake in the program: Limit panics.
func Limit(next http.Handler, lim *stint.Limiter, key KeyFunc, options ...Option) http.Handler {
	switch {
	case next == nil:
		panic("httplimit: Limit: the handler is nil; want the one to protect")
	case lim == nil:
		panic("httplimit: Limit: the limiter is nil; make one with stint.New")
	case key == nil:
		panic("httplimit: Limit: the key is nil; want one such as ClientIP, or Everyone to count all requests together")
	}
	l := &limited{responder: newResponder(options), next: next, lim: lim, key: key}
	if l.headers == nil {
		l.headers = new(policy.Headers)
	}
	l.rule = policy.Rule{Policy: l.name, Limits: lim.Limits(), Index: -1}
	l.text = newRuleText(&l.rule, l.rule.Limits, names{})
	l.holds = slices.ContainsFunc(l.rule.Limits, func(m stint.Limit) bool {
		return m.Algorithm == stint.AlgorithmConcurrency
	})
	return l
}

type limited struct {
	*responder
	next  http.Handler
	lim   *stint.Limiter
	key   KeyFunc
	rule  policy.Rule
	text  ruleText
	holds bool // there is a concurrency limit

	failures logsample.Sampler
}

func (l *limited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := l.begin(r)
	l.handle(x, w, r)
	x.end()
}

func (l *limited) handle(x *exchange, w http.ResponseWriter, r *http.Request) {
	x.shown = l.headers
	key := l.key(r)
	if key == "" {
		l.failed("", ErrNoKey)
		x.fail(w, r, ErrNoKey)
		return
	}
	v, d := x.v, &x.v.Decision
	v.Cost = 1
	claim := stint.Claim{Subject: key, Limits: l.rule.Limits, Cost: 1, Shared: key == everyone}
	var err error
	if claim.Shared {
		*d, err = l.lim.Take(r.Context(), stint.Request{Claim: claim})
	} else {
		*d, err = l.lim.Allow(r.Context(), key)
	}
	if err != nil {
		l.failed(key, err)
		x.fail(w, r, err)
		return
	}
	v.Results = append(v.Results[:0], policy.Result{
		Rule: &l.rule, Claim: claim, Usages: d.Usages(), Denied: !d.Allowed && !d.Unavailable,
	})
	x.rules = append(x.ruleRoom[:0], &l.text)
	if x.answer(w, r, nil) {
		return
	}
	var finish func(policy.Outcome)
	if l.holds {
		finish = l.keep(r.Context(), *d)
	}
	x.serve(w, r, l.next, finish)
}

// keep holds the place of a request until what it returns is called; nil if it has none.
func (l *limited) keep(ctx context.Context, d stint.Decision) func(policy.Outcome) {
	_, release := l.lim.Hold(ctx, d)
	if release == nil {
		return nil
	}
	key := d.Key()
	return func(policy.Outcome) { l.failed(key, release()) }
}

// failed logs a failure, unless the client has gone away.
func (l *limited) failed(key string, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	if unlogged, ok := l.failures.Allow(logsample.Few, time.Second); ok {
		l.logger.Error("stint: a request could not be limited", "cause", err, "policy", l.name,
			"key", shownKey(key), "limit", label.List(l.rule.Limits), "unlogged", unlogged)
	}
}

// shownKey is a key as the log shows it.
func shownKey(key string) string { return label.Short(strings.TrimPrefix(key, "\x00")) }
