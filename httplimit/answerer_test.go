package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/policy"
)

const answerConfig = `
headers: {format: [x, draft-11], reset: delta, retry_after_jitter: 0%}
tiers: [{name: anonymous, identity: ip, limits: 1/1m}]
policies:
  - {name: search, match: {path: /search}, limits: 9/1h}
  - {name: health, match: {path: /healthz}, skip: true}
`

// An answer says what that of the middleware says.
func TestAnswerIsThatOfTheMiddleware(t *testing.T) {
	answer := httplimit.NewAnswer()
	behind := guardOf(t, answerConfig)
	byAnswer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v policy.Verdict
		in := policy.Input{Method: r.Method, Path: r.URL.Path, Header: r.Header}
		_ = behind.Decide(r.Context(), &in, &v) // the verdict has it
		if !answer(w, r, &v) {
			ok.ServeHTTP(w, r)
		}
	})
	middleware := httplimit.New(guardOf(t, answerConfig))(ok)
	for _, path := range []string{"/healthz", "/search", "/search", "/"} {
		got := ask(byAnswer, path, "Accept: application/problem+json")
		r := request(http.MethodGet, path, "Accept: application/problem+json")
		r.RemoteAddr = "" // the same peer as above
		want := httptest.NewRecorder()
		middleware.ServeHTTP(want, r)
		if got.Code != want.Code || got.Body.String() != want.Body.String() {
			t.Errorf("%s: got %d %s, want %d %s", path, got.Code, got.Body, want.Code, want.Body)
		}
		for name := range want.Header() {
			if g, w := got.Header().Get(name), want.Header().Get(name); g != w {
				t.Errorf("%s: %s is %q, want %q", path, name, g, w)
			}
		}
	}
}

func TestAnswerError(t *testing.T) {
	guard := guardOver(t, failing{}, "failure: {mode: error}\n"+answerConfig)
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
		Set: parse(t, answerConfig), Decision: d, Cost: 2,
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

// TestAnswerToMoreUsages: a denial lists the limits of its rules, however many usages a store
// answers with.
func TestAnswerToMoreUsages(t *testing.T) {
	set := parse(t, answerConfig)
	rule := set.Rules()[0]
	for _, n := range []int{0, 1, 5} {
		usages := make([]stint.Usage, n)
		for i := range usages {
			usages[i].RetryAfter = time.Minute
		}
		var violated []string
		answer := httplimit.NewAnswer(httplimit.WithDenied(
			func(_ http.ResponseWriter, _ *http.Request, d *httplimit.Denial) { violated = d.Violated }))
		answer(httptest.NewRecorder(), request(http.MethodGet, "/"), &policy.Verdict{
			Set: set, Decision: stint.Decision{RetryAfter: time.Minute},
			Results: []policy.Result{{Rule: rule, Claim: stint.Claim{Limits: rule.Limits}, Usages: usages}},
		})
		if want := min(n, len(rule.Limits)); len(violated) != want {
			t.Errorf("%d usages: %q are violated, want %d limits", n, violated, want)
		}
	}
}
