package httplimit

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/seldom"
	"github.com/stint-limiter/stint/policy"
)

// Limit returns a handler that holds the requests to next to a limiter, without any configuration. Each costs one unit.
// The key says whose requests are counted together; it has no default, because one that was forgotten would have
// everybody share one bucket.
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
	l := &limited{front: newFront(options), next: next, lim: lim, key: key, shown: policy.DefaultHeaders()}
	if l.front.headers != nil {
		l.shown = *l.front.headers
	}
	limits := lim.Limits()
	l.text = newRuleText(l.name, "", limits, names{})
	l.holds = slices.ContainsFunc(limits, func(m stint.Limit) bool { return m.Algorithm == stint.Concurrency })
	return l
}

// limited is a handler behind a limiter.
type limited struct {
	*front
	next     http.Handler
	lim      *stint.Limiter
	key      KeyFunc
	text     ruleText
	shown    policy.Headers
	holds    bool // there is a concurrency limit
	failures seldom.Gate
}

func (l *limited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := l.begin(r)
	l.handle(x, w, r)
	x.end()
}

func (l *limited) handle(x *exchange, w http.ResponseWriter, r *http.Request) {
	x.shown = l.shown
	x.rules = append(x.ruleRoom[:0], &l.text)
	key := l.key(r)
	if key == "" {
		l.log(ErrNoKey)
		x.fail(w, r, ErrNoKey)
		return
	}
	d, err := l.lim.Take(r.Context(), stint.Request{Claim: stint.Claim{Subject: key, Cost: 1, Shared: key == everyone}})
	if err != nil {
		l.log(err)
		x.fail(w, r, err)
		return
	}
	*x.v = policy.Verdict{Decision: d, Cost: 1}
	if !d.Allowed {
		x.refuse(w, r)
		return
	}
	x.tell(w.Header())
	x.setDrafted(w.Header())
	var finish func(policy.Outcome)
	if l.holds {
		finish = l.keep(r.Context(), d)
	}
	x.serve(w, r, l.next, finish)
}

// keep holds the place of a request until what it returns is called; nil if it has none.
func (l *limited) keep(ctx context.Context, d stint.Decision) func(policy.Outcome) {
	release := l.lim.Hold(ctx, d)
	if release == nil {
		return nil
	}
	return func(policy.Outcome) { l.log(release()) }
}

// log tells of a failure that is not the client's going away, once a second at most.
func (l *limited) log(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	if unlogged, ok := l.failures.Take(1, time.Second); ok {
		l.logger.Error("stint: a request could not be limited", "policy", l.name, "cause", err, "unlogged", unlogged)
	}
}
