package httplimit

import (
	"net/http"

	"github.com/stint-limiter/stint/policy"
)

// NewAnswer returns a function that answers as the middleware of [New] does, for programs that come
// to their verdicts in another way: a server that decides for others, a proxy. It sets the header
// fields about limits, and answers a request that was denied or could not be decided. It reports
// whether the request was one of those: if not, it may go ahead.
//
// A verdict need not be a guard's, but without a Set it says nothing about its limits. The function
// is safe for concurrent use.
func NewAnswer(options ...AnswerOption) func(w http.ResponseWriter, r *http.Request, v *policy.Verdict) (refused bool) {
	f := newResponder()
	for _, o := range options {
		o.applyToAnswer(f)
	}
	return func(w http.ResponseWriter, r *http.Request, v *policy.Verdict) (refused bool) {
		x := f.begin(nil)
		own := x.v
		x.v = v // which stays the caller's
		defer func() {
			x.v = own
			x.end()
		}()
		x.rules, x.shown = x.ruleRoom[:0], &policy.Headers{}
		if v.Set != nil {
			x.describe()
		} else if x.headers != nil {
			x.shown = x.headers
		}
		return x.answer(w, r, v.Err)
	}
}
