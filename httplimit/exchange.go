package httplimit

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/middleware"
	"github.com/stint-limiter/stint/policy"
)

// exchange is a request and its answer. Exchanges are reused, so no response may point into one.
type exchange struct {
	*responder
	request *http.Request
	writer  http.ResponseWriter
	shown   *policy.Headers
	in      policy.Input
	v       *policy.Verdict
	unread  error         // why the body could not be read, if it had to be
	head    []byte        // the beginning of the body, if read to estimate usage
	rest    io.ReadCloser // the body after head
	whole   bool          // head is the whole body
	// rules are the texts of the enforced rules, in the order of the verdict's results.
	rules []*ruleText
	// rule, limit and state belong to the limit that matters most to the client; rule is nil if
	// there is none.
	rule  *ruleText
	limit *limitText
	state stint.State

	draft
	body []byte

	askRoom  [2]middleware.Ask
	ruleRoom [3]*ruleText
	partRoom [drafted]part
	textRoom [512]byte
	bodyRoom [512]byte
}

func (f *responder) begin(r *http.Request) *exchange {
	x, ok := f.idle.Get().(*exchange)
	if !ok {
		x = &exchange{responder: f}
		x.in.Content = x
		x.draft = draft{text: x.textRoom[:0], parts: x.partRoom[:0]}
		x.body = x.bodyRoom[:0]
		if f.claims != nil {
			x.in.Claims = x
		}
	}
	if x.v == nil {
		x.v = new(policy.Verdict)
	}
	x.request = r
	return x
}

// handler returns a handler that calls handle with an exchange for every request.
func (f *responder) handler(handle func(*exchange, http.ResponseWriter, *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := f.begin(r)
		handle(x, w, r)
		x.end()
	})
}

// end releases the exchange for another request. The verdict is reused too, unless it was passed to
// the handler, which may keep it after [FromContext].
func (x *exchange) end() {
	if x.shares {
		x.v = nil
	}
	x.request, x.writer, x.rules, x.unread = nil, nil, nil, nil
	x.head, x.rest, x.whole = nil, nil, false
	x.in = policy.Input{Claims: x.in.Claims, Content: x}
	x.draft.clear()
	x.idle.Put(x)
}

// Claim implements the Claims of [policy.Input].
func (x *exchange) Claim(name string) string { return x.claims(x.request, name) }

// describe sets the headers to show, and the texts of the rules that the request was judged by.
func (x *exchange) describe() {
	set := x.v.Set
	x.shown = x.headers
	if x.shown == nil {
		x.shown = &set.Spec().Headers
	}
	text := x.texts.Load()
	if text == nil || text.set != set {
		text = newSetText(set)
		x.texts.Store(text)
	}
	x.rules = text.of(x.v.Results, x.ruleRoom[:0])
}

// findDecisive finds the same state as [stint.Decision.Decisive], with the texts of its limit. But
// unless it denies, a limit without a window ranks below limits with one: a shortage of places ends
// soon, at a time that cannot be predicted.
func (x *exchange) findDecisive() {
	x.rule = nil
	x.eachLimit(func(r *ruleText, l *limitText, s stint.State) {
		more := x.rule == nil
		switch {
		case more:
		case l.timed != x.limit.timed && s.RetryAfter == 0 && x.state.RetryAfter == 0:
			more = l.timed
		default:
			more = s.Outweighs(x.state)
		}
		if more {
			x.rule, x.limit, x.state = r, l, s
		}
	})
}

func (x *exchange) eachLimit(f func(*ruleText, *limitText, stint.State)) {
	for i, t := range x.rules {
		r := &x.v.Results[i]
		for k := range min(len(r.Usages), len(t.limits)) { // a store may return too few or too many
			f(t, &t.limits[k], r.State(k))
		}
	}
}

// serve calls the handler. Finish, unless nil, is called once with the outcome, even if the handler
// panics; the panic then continues.
func (x *exchange) serve(w http.ResponseWriter, r *http.Request, next http.Handler, finish func(policy.Outcome)) {
	if x.shares {
		r = r.WithContext(context.WithValue(r.Context(), verdictKey{}, x.v))
	}
	if finish == nil {
		next.ServeHTTP(w, r)
		return
	}
	rec := &recorder{ResponseWriter: w, costHeader: x.v.SettleHeader, noBody: r.Method == http.MethodHead,
		unread: x.unread != nil}
	if rec.meter = x.v.Meter(); rec.meter != nil {
		r = x.askForUsage(r, rec.meter)
	}
	var once sync.Once
	rec.watch.Init(w, x.timeout, func() func() {
		o := rec.outcome(r.Context())
		return func() { once.Do(func() { finish(o) }) }
	})
	defer func() {
		rec.watch.Stop()
		once.Do(func() { finish(rec.outcome(r.Context())) })
	}()
	next.ServeHTTP(rec.wrapped(), r)
	rec.returned = true
	if rec.watch.Ended() {
		panic(http.ErrAbortHandler) // else a truncated response could look complete
	}
}

type verdictKey struct{}

// FromContext returns the verdict on the request that a handler serves, if the middleware has the
// option [WithVerdict]. The verdict must not be changed. Under [By] it has only the Decision, a
// result for each key and the Cost: there is no configuration, so Set is nil and Tier is "".
func FromContext(ctx context.Context) (*policy.Verdict, bool) {
	v, ok := ctx.Value(verdictKey{}).(*policy.Verdict)
	return v, ok
}
