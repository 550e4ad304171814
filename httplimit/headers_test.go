package httplimit_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/policy"
)

// bubble runs a test in virtual time, which begins at midnight UTC on 2000-01-01, with a handler
// behind a guard.
func bubble(t *testing.T, text string, test func(t *testing.T, h http.Handler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, httplimit.New(guardOf(t, text), httplimit.WithClaims(claimHeader))(ok))
	})
}

// wantFields compares header fields: "Name: value", and "Name:" for one that must not be there.
func wantFields(t *testing.T, h http.Header, fields ...string) {
	t.Helper()
	for _, field := range fields {
		name, want, _ := strings.Cut(field, ":")
		if got := strings.Join(h.Values(name), " | "); got != strings.TrimPrefix(want, " ") {
			t.Errorf("%s: got %q, want %q", name, got, strings.TrimPrefix(want, " "))
		}
	}
}

// The Reset of a denial is the instant of Retry-After, whatever denied. If no time helps, there is
// neither.
func TestResetOfADenial(t *testing.T) {
	const never = "tiers: [{name: all, identity: everyone, limits: 0/1m}]"
	const ban = "bans: {after: 1, within: 1m, durations: [1h]}\n"
	for _, c := range []struct{ what, text, epoch, delta, after string }{
		{"oldest and window", "tiers: [{name: all, identity: everyone, limits: 2/1m}]", "946684861", "40", "40"},
		{"bucket", "tiers: [{name: all, identity: everyone, limits: 2/1m burst 2 bucket}]", "946684831", "10", "10"},
		{"of two the later", "tiers: [{name: all, identity: everyone, limits: [2/30s, 2/1m]}]", "946684861", "40", "40"},
		{"ban", ban + "tiers: [{name: all, identity: ip, limits: 2/1m}]", "946688421", "3600", "3600"},
		{"no time helps", never, "", "", ""},
	} {
		for form, want := range map[string]string{"epoch": c.epoch, "delta": c.delta} {
			text := "headers: {format: [x, draft-11], retry_after_jitter: 0%, reset: " + form + "}\n" + c.text
			bubble(t, text, func(t *testing.T, h http.Handler) {
				time.Sleep(500 * time.Millisecond)
				ask(h, "/")
				time.Sleep(10 * time.Second)
				ask(h, "/")
				time.Sleep(10300 * time.Millisecond) // waits are rounded up
				w := ask(h, "/")
				if c.text != never && c.what == "ban" {
					w = ask(h, "/") // the first denial leads to it
				}
				if w.Code != http.StatusTooManyRequests {
					t.Fatalf("%s: got %d, want 429", c.what, w.Code)
				}
				wantFields(t, w.Header(), "X-RateLimit-Reset: "+want, "Retry-After: "+c.after)
				if c.what == "oldest and window" {
					wantFields(t, w.Header(), `RateLimit: "all-1m";r=0;t=40`)
				}
			})
		}
	}
}

func TestDraft11(t *testing.T) {
	const text = `
headers: {format: draft-11}
identities: {key: {header: X-Key}}
tiers:
  - {name: free, identity: everyone, limits: [3/1m burst 2x, 50/1h], budget: [9/1m, 9007199254740992/366d]}
policies:
  - {name: free, match: {path: /same}, limits: 70/1m}
  - {name: search, match: {path: /search}, limits: [10/10s burst 25 bucket, "login: 5/1s", 7/1h fixed]}
  - {name: slow, match: {path: /slow}, limits: 2/30s concurrency}
`
	const tier = `"free-1m";q=6;w=60, "free-1h";q=50;w=3600, "free-1m-cost";q=9;w=60, "free-366d-cost";q=999999999999999;w=31622400`
	const left = `"free-1m";r=5;t=60, "free-1h";r=49;t=3600, "free-1m-cost";r=8;t=60, "free-366d-cost";r=999999999999999;t=31838746`
	for _, c := range []struct{ path, policy, limit string }{
		{"/", tier, left},
		{"/same", tier + `, "free-1m-2";q=70;w=60`, left + `, "free-1m-2";r=69;t=60`},
		{"/slow", tier + `, "slow-30s-concurrency";q=2;qu="concurrent-requests"`, left + `, "slow-30s-concurrency";r=1`},
		{"/search", tier + `, "search-10s-bucket";q=25;w=25, "search-1s-login";q=5;w=1, "search-1h-fixed";q=7;w=3600`,
			left + `, "search-10s-bucket";r=24;t=1, "search-1s-login";r=4;t=1, "search-1h-fixed";r=6;t=3600`},
	} {
		bubble(t, text, func(t *testing.T, h http.Handler) {
			got := ask(h, c.path).Header()
			wantFields(t, got, "RateLimit-Policy: "+c.policy, "RateLimit: "+c.limit, "X-RateLimit-Limit:")
			policies, limits := items(t, got, "RateLimit-Policy"), items(t, got, "RateLimit")
			if len(policies) != len(limits) {
				t.Fatalf("%s: %d policies and %d limits", c.path, len(policies), len(limits))
			}
			for name := range limits {
				if _, ok := policies[name]; !ok {
					t.Errorf("%s: RateLimit has %q, RateLimit-Policy has not", c.path, name)
				}
			}
		})
	}
}

// A list that proxies could find too large shows only the limit that matters most.
func TestDraft11OfManyLimits(t *testing.T) {
	for _, format := range []string{"draft-11", "[x, draft-11]"} {
		limits := "9/1m"
		for i := range 15 {
			limits += fmt.Sprintf(", 'limit-with-a-long-name-%d: 100/1h'", i)
		}
		bubble(t, `
headers: {format: `+format+`, retry_after_jitter: 0%}
tiers: [{name: all, identity: everyone, limits: [`+limits+`]}]`, func(t *testing.T, h http.Handler) {
			wantFields(t, ask(h, "/").Header(), `RateLimit-Policy: "all-1m";q=9;w=60`, `RateLimit: "all-1m";r=8;t=60`)
			for range 8 {
				ask(h, "/")
			}
			wantFields(t, ask(h, "/").Header(), `RateLimit-Policy: "all-1m";q=9;w=60`, `RateLimit: "all-1m";r=0;t=60`,
				"Retry-After: 60")
		})
	}
}

// items parses a list of items with distinct names.
func items(t *testing.T, h http.Header, name string) map[string]*httpsfv.Params {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h.Values(name))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	found := map[string]*httpsfv.Params{}
	for _, member := range list {
		item := member.(httpsfv.Item)
		found[item.Value.(string)] = item.Params
	}
	if len(found) != len(list) {
		t.Errorf("%s: %v has a name twice", name, h.Values(name))
	}
	return found
}

// An inner layer replaces all that an outer one says, also what it does not say itself.
func TestInnerLayerReplacesOuter(t *testing.T) {
	outer := guardOf(t, "tiers: [{name: outer, identity: everyone, limits: 10/1m burst 2x}]")
	inner := httplimit.By(httplimit.Everyone(), stint.AtOnce(2, time.Minute), httplimit.WithName("inner"))
	wantFields(t, ask(httplimit.New(outer)(inner(ok)), "/").Header(), "X-RateLimit-Limit: 2", "X-RateLimit-Remaining: 1",
		"X-RateLimit-Policy: inner", "X-RateLimit-Tier:", "X-RateLimit-Burst:", "X-RateLimit-Window:", "X-RateLimit-Reset:")
}

// The option goes before the configuration.
func TestWithHeaders(t *testing.T) {
	h := httplimit.New(guardOf(t, tierTable), httplimit.WithHeaders(policy.Headers{OmitX: true, Draft11: true}))(ok)
	wantFields(t, ask(h, "/").Header(), "X-RateLimit-Limit:",
		`RateLimit-Policy: "anonymous-1m";q=20;w=60, "anonymous-1h";q=100;w=3600, "anonymous-1d";q=1000;w=86400`)
}

// Denied in one window, callers are told to come back at different times, none too early.
func TestF35DeniedTogetherComeBackApart(t *testing.T) {
	for _, c := range []struct {
		what, jitter string
		wait         int64 // what it takes, in seconds
		most         int64 // what may be added
		distinct     int
	}{
		{"a minute", "", 60, 12, 13},
		{"an hour", "", 3600, 60, 61},
		{"a second", "", 1, 1, 2},
		{"off", "headers: {retry_after_jitter: 0%}\n", 60, 0, 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			window := time.Duration(c.wait) * time.Second
			bubble(t, c.jitter+"tiers: [{name: all, identity: everyone, limits: 1/"+window.String()+"}]", func(t *testing.T, h http.Handler) {
				ask(h, "/")
				seen := map[int64]int{}
				for range 1000 {
					w := ask(h, "/")
					after, err := strconv.ParseInt(w.Header().Get("Retry-After"), 10, 64)
					if err != nil || after < c.wait || after > c.wait+c.most {
						t.Fatalf("Retry-After: got %q, want %d to %d", w.Header().Get("Retry-After"), c.wait,
							c.wait+c.most)
					}
					if got := bodyOf(t, w).RetryAfter; got != after {
						t.Fatalf("the body says %d, the header %d", got, after)
					}
					wantFields(t, w.Header(), fmt.Sprint("X-RateLimit-Reset: ", time.Now().Unix()+after))
					seen[after]++
				}
				if len(seen) != c.distinct {
					t.Errorf("1,000 denials: got %d distinct times %v, want %d", len(seen), seen, c.distinct)
				}
			})
		})
	}
}

// TestFieldsOfSeveralTiers: a request that some read as one of another tier is told the limits that
// it is held to, which may be only some of each tier.
func TestFieldsOfSeveralTiers(t *testing.T) {
	h := httplimit.New(guardOf(t, `
tiers:
  - {name: bulk, match: {path: /bulk/**}, identity: ip, limits: [1000/1m, 2/1h]}
  - {name: anyone, identity: ip, limits: [3/1m, 50/1h]}
`), httplimit.WithHeaders(policy.Headers{Draft11: true}))(http.NotFoundHandler())
	w := ask(h, "/bulk/..%2Fx")
	for name, want := range map[string]string{
		"RateLimit-Policy":   `"anyone-1m";q=3;w=60, "bulk-1h";q=2;w=3600`,
		"X-RateLimit-Limit":  "2",
		"X-RateLimit-Window": "3600",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
