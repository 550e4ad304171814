package httplimit

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/bykey"
	"github.com/stint-limiter/stint/policy"
)

// exchange is a request and its answer. It is used again, so no response points into it.
type exchange struct {
	*responder
	request *http.Request
	writer  http.ResponseWriter
	shown   *policy.Headers
	in      policy.Input
	v       *policy.Verdict
	unread  error         // why the body could not be read, if something was to be found in it
	head    []byte        // the beginning of the body, if that was read to estimate the request's usage
	rest    io.ReadCloser // what follows it
	whole   bool          // nothing does
	// rules are the texts of the rules that are enforced, in the order of the verdict's results.
	rules []*ruleText
	// rule, limit and state are what matters most to the client; rule is nil without limits.
	rule  *ruleText
	limit *limitText
	state stint.State

	draft
	body []byte

	askRoom  [2]bykey.Ask
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

// handler returns a handler that has an exchange for every request.
func (f *responder) handler(handle func(*exchange, http.ResponseWriter, *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := f.begin(r)
		handle(x, w, r)
		x.end()
	})
}

// end keeps the exchange for another request. The verdict is kept too, unless somebody may still
// look at it, who has it from [FromContext].
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

// describe looks up what there is to say of the rules that a request was judged by.
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

// findDecisive finds the state that [stint.Decision.Decisive] does, and what there is to say of its
// limit. But a limit without a window comes after those with one unless it denies: that few places
// are left is soon over, and nobody knows when.
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
		for k := range min(len(r.Usages), len(t.limits)) { // a store may answer anything
			f(t, &t.limits[k], r.State(k))
		}
	}
}

// serve lets the handler answer. If something is to be done with the outcome, it is done once, and
// also if the handler panics: the panic goes on.
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
		panic(http.ErrAbortHandler) // else half a response could look like a whole one
	}
}

type verdictKey struct{}

// FromContext returns the verdict on the request that a handler serves, if its middleware was made
// [WithVerdict]. It must not be changed. Under [By] it has the Decision, a result for each key and
// the Cost, and nothing else: there is no configuration, so that Set is nil and Tier is "".
func FromContext(ctx context.Context) (*policy.Verdict, bool) {
	v, ok := ctx.Value(verdictKey{}).(*policy.Verdict)
	return v, ok
}
