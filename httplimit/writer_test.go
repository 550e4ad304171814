package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/policy"
)

const writerConfig = `
headers: {format: [x, draft-11], reset: delta, retry_after_jitter: 0%}
tiers: [{name: anonymous, identity: ip, limits: 1/1m}]
policies:
  - {name: search, match: {path: /search}, limits: 9/1h}
  - {name: health, match: {path: /healthz}, skip: true}
`

// A writer says what the middleware says.
func TestWriterAnswersAsTheMiddleware(t *testing.T) {
	writer := httplimit.NewWriter()
	behind := guardOf(t, writerConfig)
	byWriter := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v policy.Verdict
		in := policy.Input{Method: r.Method, Path: r.URL.Path, Header: r.Header}
		if !writer.Answer(w, r, &v, behind.Decide(r.Context(), &in, &v)) {
			ok.ServeHTTP(w, r)
		}
	})
	front := httplimit.New(guardOf(t, writerConfig))(ok)
	for _, path := range []string{"/healthz", "/search", "/search", "/"} {
		got := ask(byWriter, path, "Accept: application/problem+json")
		r := request(http.MethodGet, path, "Accept: application/problem+json")
		r.RemoteAddr = "" // the same peer as above
		want := httptest.NewRecorder()
		front.ServeHTTP(want, r)
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

func TestWriterError(t *testing.T) {
	guard := guardOver(t, failing{}, "failure: {mode: error}\n"+writerConfig)
	var v policy.Verdict
	err := guard.Decide(t.Context(), &policy.Input{Path: "/"}, &v)
	w := httptest.NewRecorder()
	if !httplimit.NewWriter().Answer(w, request(http.MethodGet, "/"), &v, err) || w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d", w.Code)
	}
}

func TestWriterTells(t *testing.T) {
	writer, guard := httplimit.NewWriter(), guardOf(t, writerConfig)
	for i, retry := range []string{"", "60"} {
		var v policy.Verdict
		if err := guard.Decide(t.Context(), &policy.Input{Path: "/search"}, &v); err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		writer.Tell(h, &v)
		if h.Get("X-RateLimit-Remaining") != "0" || h.Get("X-RateLimit-Policy") != "anonymous" || h.Get("Retry-After") != retry ||
			!strings.Contains(h.Get("RateLimit-Policy"), `"search-1h";q=9`) {
			t.Errorf("request %d: %v", i, h)
		}
	}
}

// Rules that are not the set's are told of as well.
func TestWriterTellsRules(t *testing.T) {
	limits := []stint.Limit{stint.PerMinute(5)}
	d, err := memory(t).Take(t.Context(), stint.Request{Claim: stint.Claim{Subject: "a", Limits: limits, Cost: 2}})
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	httplimit.NewWriter().TellRules(h, parse(t, writerConfig), []*policy.Rule{{Policy: "own", Limits: limits, Index: -1}}, d, 2)
	if h.Get("X-RateLimit-Policy") != "own" || h.Get("X-RateLimit-Remaining") != "3" || h.Get("X-RateLimit-Cost") != "2" || h.Get("X-RateLimit-Tier") != "" {
		t.Errorf("got %v", h)
	}
}

// A verdict that is not a guard's has no rules to tell of.
func TestWriterWithoutSet(t *testing.T) {
	writer := httplimit.NewWriter()
	h := http.Header{}
	writer.Tell(h, &policy.Verdict{Decision: stint.Decision{Allowed: true}})
	if len(h) != 0 {
		t.Errorf("got %v", h)
	}
	w := httptest.NewRecorder()
	if !writer.Answer(w, request(http.MethodGet, "/"), &policy.Verdict{}, nil) || w.Code != http.StatusTooManyRequests {
		t.Errorf("got %d", w.Code)
	}
}
