package httplimit

import (
	"net/http"
	"sync/atomic"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// Writer says what the middleware of [New] says, for those who come to their verdicts in another way: a server that decides
// for others, a proxy. It is safe for concurrent use.
type Writer struct {
	answers *front
	tells   *front
	texts   atomic.Pointer[setText]
}

// NewWriter returns a writer with the options of [New]. Those that are about deciding have no effect.
func NewWriter(options ...Option) *Writer {
	return &Writer{
		answers: newFront(options),
		tells: newFront(append(options[:len(options):len(options)],
			WithDenied(func(http.ResponseWriter, *http.Request, *Denial) {}))),
	}
}

// Answer sets the header fields about limits, and answers a request that was denied, or that could not be decided because of
// err. It reports whether it has answered: if not, the request may go ahead.
func (w *Writer) Answer(rw http.ResponseWriter, r *http.Request, v *policy.Verdict, err error) (served bool) {
	w.with(w.answers, v, func(x *exchange) {
		w.describe(x, v.Set(), v.Rules())
		switch {
		case err != nil:
			x.fail(rw, r, err)
		case !v.Decision.Allowed:
			x.refuse(rw, r)
		default:
			x.tell(rw.Header())
			x.setDrafted(rw.Header())
			return
		}
		served = true
	})
	return served
}

// Tell sets the header fields about limits, and Retry-After if the request was denied and waiting helps. A verdict without
// a set, as [Limit] has it, says nothing of its limits.
func (w *Writer) Tell(h http.Header, v *policy.Verdict) { w.tell(h, v.Set(), v.Rules(), v) }

// TellRules is Tell for a decision that was not a guard's. The rules are those of the decision's claims, in their
// order; they need not be the set's, which says what fields there are. The cost is in units of budgets.
func (w *Writer) TellRules(h http.Header, set *policy.Set, rules []*policy.Rule, d stint.Decision, cost int64) {
	w.tell(h, set, rules, &policy.Verdict{Decision: d, Cost: cost})
}

func (w *Writer) tell(h http.Header, set *policy.Set, rules []*policy.Rule, v *policy.Verdict) {
	w.with(w.tells, v, func(x *exchange) {
		w.describe(x, set, rules)
		if !v.Decision.Allowed {
			x.refuse(headerOnly{header: h}, nil)
			return
		}
		x.tell(h)
		x.setDrafted(h)
	})
}

// with calls do with an exchange about a verdict, which stays the caller's.
func (w *Writer) with(f *front, v *policy.Verdict, do func(*exchange)) {
	x := f.begin(nil)
	own := x.v
	x.v = v
	do(x)
	x.v = own
	x.end()
}

// describe looks up what there is to say of rules, or makes it up for those that are not the set's.
func (w *Writer) describe(x *exchange, set *policy.Set, rules []*policy.Rule) {
	x.rules = x.ruleRoom[:0]
	x.shown = policy.DefaultHeaders()
	if set != nil {
		x.shown = set.Headers()
		w.describeRules(x, set, rules)
	}
	if x.front.headers != nil {
		x.shown = *x.front.headers
	}
}

func (w *Writer) describeRules(x *exchange, set *policy.Set, rules []*policy.Rule) {
	t := w.texts.Load()
	if t == nil || t.set != set {
		t = newSetText(set)
		w.texts.Store(t)
	}
	x.rules = t.of(rules, x.rules)
}

// headerOnly is a ResponseWriter for who wants nothing but the header.
type headerOnly struct {
	http.ResponseWriter
	header http.Header
}

func (w headerOnly) Header() http.Header { return w.header }
