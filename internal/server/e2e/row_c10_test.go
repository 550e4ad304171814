package e2e

import (
	"net/http"
	"testing"
	"time"
)

// TestC10ResetIsTheInstantOfRetryAfter on a 429, not the moment when all is unused, which is its
// meaning on an allowed request. A client that sleeps until then is admitted.
func TestC10ResetIsTheInstantOfRetryAfter(t *testing.T) {
	t.Parallel()
	// Room for one is back after 2 s, and all of it after 20 s.
	const policies = "headers: {retry_after_jitter: 0%}\ntiers: [{name: all, identity: everyone, limits: 10/20s bucket}]\n"
	question := func(url string) func() *http.Response {
		return func() *http.Response {
			r, _ := fetch(t, http.MethodPost, url+"/v1/take", `{"method": "GET", "path": "/", "peer": "192.0.2.1"}`,
				"Content-Type: application/json")
			return r
		}
	}
	get := func(url string) func() *http.Response {
		return func() *http.Response {
			r, _ := fetch(t, http.MethodGet, url, "")
			return r
		}
	}
	for what, ask := range map[string]func() *http.Response{
		"gateway":    get(proxied(t, policies, served)),
		"middleware": get(inProgram(t, policies, served)),
		"API":        question(start(t, policies).api),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			var r *http.Response
			for range 10 {
				if r = ask(); r.StatusCode != http.StatusOK {
					t.Fatalf("got %d, want 200", r.StatusCode)
				}
			}
			unused := time.Unix(seconds(t, r.Header, "X-RateLimit-Reset"), 0)
			if unused.Before(began.Add(18 * time.Second)) {
				t.Errorf("allowed: Reset is %v after the beginning, want when all is unused", unused.Sub(began))
			}
			asked := time.Now()
			for r = ask(); r.StatusCode == http.StatusOK; r = ask() { // on a slow machine
				asked = time.Now()
			}
			answered := time.Now()
			reset := time.Unix(seconds(t, r.Header, "X-RateLimit-Reset"), 0)
			after := time.Duration(seconds(t, r.Header, "Retry-After")) * time.Second
			if reset.Sub(asked) < after-time.Second || reset.Sub(answered) > after+time.Second {
				t.Errorf("denied: Reset is in %v and Retry-After is %v, want the same, rounded up", reset.Sub(answered), after)
			}
			time.Sleep(time.Until(reset))
			if r := ask(); r.StatusCode != http.StatusOK {
				t.Errorf("after Reset: got %d, want 200", r.StatusCode)
			}
		})
	}
}
