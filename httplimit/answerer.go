package httplimit

import (
	"net/http"

	"github.com/stint-limiter/stint/policy"
)

// NewAnswer returns a function that answers requests as the middleware of [New] does, for programs
// that get their verdicts in another way, such as proxies and servers that decide for others. The
// function sets the header fields about limits, and answers a request that was denied or could not
// be decided. It reports whether it answered the request: if not, the request may go ahead.
//
// A verdict need not come from a guard, but without a Set its limits are not reported. The function
// is safe for concurrent use. NewAnswer panics if an option is invalid.
func NewAnswer(options ...AnswerOption) func(w http.ResponseWriter, r *http.Request, v *policy.Verdict) (refused bool) {
	f := configured("NewAnswer", options, AnswerOption.applyToAnswer)
	return func(w http.ResponseWriter, r *http.Request, v *policy.Verdict) (refused bool) {
		x := f.begin(nil)
		own := x.v
		x.v = v // still owned by the caller
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
