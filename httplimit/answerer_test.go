package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/policy"
)

const answerConfig = `
headers: {format: [x, draft-11], reset: delta, retry_after_jitter: 0%}
tiers: [{name: anonymous, identity: ip, limits: 1/1m}]
policies:
  - {name: search, match: {path: /search}, limits: 9/1h}
  - {name: health, match: {path: /healthz}, skip: true}
`

func TestAnswerError(t *testing.T) {
	guard := guardOver(t, failing, "failure: {mode: error}\n"+answerConfig)
	var v policy.Verdict
	_ = guard.Decide(t.Context(), &policy.Input{Path: "/"}, &v) // the verdict has it
	w := httptest.NewRecorder()
	if !httplimit.NewAnswer()(w, request(http.MethodGet, "/"), &v) || w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d", w.Code)
	}
}

// headersOf returns the header fields of an answer without its body.
func headersOf(v *policy.Verdict) http.Header {
	w := httptest.NewRecorder()
	httplimit.NewAnswer(httplimit.WithDenied(func(http.ResponseWriter, *http.Request, *httplimit.Denial) {}))(w, nil, v)
	return w.Header()
}

// Rules that are not the set's are described as well.
func TestAnswerOfOtherRules(t *testing.T) {
	limits := []stint.Limit{stint.PerMinute(5)}
	d, err := memory(t).Take(t.Context(), stint.Request{Claims: []stint.Claim{{Subject: "a", Limits: limits, Cost: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	rule := &policy.Rule{Policy: "own", Limits: limits, Index: -1}
	wantFields(t, headersOf(&policy.Verdict{
		Set: guardtest.Parse(t, answerConfig), Decision: d, Cost: 2,
		Results: []policy.Result{{Rule: rule, Claim: d.Charge.Claims()[0], Usages: d.Usages()}},
	}), "X-RateLimit-Policy: own", "X-RateLimit-Remaining: 3", "X-RateLimit-Cost: 2", "X-RateLimit-Tier:")
}

// A verdict that is not a guard's has no rules to describe.
func TestAnswerWithoutSet(t *testing.T) {
	if h := headersOf(&policy.Verdict{Decision: stint.Decision{Allowed: true}}); len(h) != 0 {
		t.Errorf("got %v", h)
	}
	w := httptest.NewRecorder()
	if !httplimit.NewAnswer()(w, request(http.MethodGet, "/"), &policy.Verdict{}) ||
		w.Code != http.StatusTooManyRequests {
		t.Errorf("got %d", w.Code)
	}
}
