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
	"github.com/stint-limiter/stint/internal/testkit"
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
	inner := httplimit.By(httplimit.Everyone(), stint.Concurrency(2, time.Minute), httplimit.WithName("inner"))
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
headers: {format: [x, draft-11]}
tiers:
  - {name: bulk, match: {path: /bulk/**}, identity: ip, limits: [1000/1m, 2/1h]}
  - {name: anyone, identity: ip, limits: [3/1m, 50/1h]}
`))(ok)
	wantFields(t, ask(h, "/bulk/..%2Fx").Header(), `RateLimit-Policy: "anyone-1m";q=3;w=60, "bulk-1h";q=2;w=3600`,
		"X-RateLimit-Limit: 2", "X-RateLimit-Window: 3600")
}

func TestXFields(t *testing.T) {
	bubble(t, tierTable, func(t *testing.T, h http.Handler) {
		time.Sleep(200 * time.Millisecond) // Reset is rounded up
		w := ask(h, "/", "X-User: 7")
		wantFields(t, w.Header(),
			"X-RateLimit-Limit: 30", "X-RateLimit-Remaining: 59", "X-RateLimit-Burst: 60", "X-RateLimit-Window: 60",
			"X-RateLimit-Policy: free", "X-RateLimit-Tier: free", "X-RateLimit-Cost: 1", "X-RateLimit-Degraded:",
			"X-RateLimit-Reset: 946684861", // a minute after the beginning of the year 2000, and 200ms
			"RateLimit:", "RateLimit-Policy:", "Retry-After:")
		if got, want := w.Body.String(), "ok\n"; got != want {
			t.Errorf("body: got %q, want %q", got, want)
		}
	})
}

func TestWindowsOfPartsOfASecond(t *testing.T) {
	bubble(t, `
headers: {format: [x, draft-11]}
tiers: [{name: all, identity: everyone, limits: [4/250ms, 9/1.5s]}]`, func(t *testing.T, h http.Handler) {
		wantFields(t, ask(h, "/").Header(),
			"X-RateLimit-Window: 0.25", "X-RateLimit-Remaining: 3",
			`RateLimit-Policy: "all-250ms";q=4;w=1, "all-1.5s";q=9;w=2`,
			`RateLimit: "all-250ms";r=3;t=1, "all-1.5s";r=8;t=2`)
	})
}

// A concurrency limit is shown if it denies or is alone, without a window.
func TestConcurrencyIsShownLast(t *testing.T) {
	const places, alone = "limits: [100/1m, 1/10s concurrency]", "limits: 1/10s concurrency"
	place := []string{"X-RateLimit-Limit: 1", "X-RateLimit-Remaining: 0", "X-RateLimit-Window:", "X-RateLimit-Reset:"}
	for _, c := range []struct {
		what, limits string
		nested       bool // asks while another request has the place
		fields       []string
	}{
		{"room", places, false, []string{"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 99",
			"X-RateLimit-Window: 60", "X-RateLimit-Reset: 60"}},
		{"denied", places, true, place},
		{"room, alone", alone, false, place},
		{"denied, alone", alone, true, place},
	} {
		testkit.InBubble(t, c.what, func(t *testing.T) {
			var h http.Handler
			h = httplimit.New(guardOf(t, "headers: {reset: delta}\ntiers: [{name: all, identity: everyone, "+c.limits+"}]"))(
				http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if c.nested && r.URL.Path != "/nested" {
						wantFields(t, ask(h, "/nested").Header(), c.fields...)
					}
				}))
			if w := ask(h, "/"); !c.nested {
				wantFields(t, w.Header(), c.fields...)
			}
		})
	}
}

// TestNothingIsSaid when nothing limits, or when headers are off.
func TestNothingIsSaid(t *testing.T) {
	for text, want := range map[string]int{
		"headers: {format: [x, draft-11]}\ntiers: [{name: all, identity: everyone, limits: unlimited}]": 200,
		"headers: {format: none}" + tierTable: 429, // after 20 requests
	} {
		bubble(t, text, func(t *testing.T, h http.Handler) {
			for range 20 {
				if got := ask(h, "/").Header(); len(got) != 1 { // the handler's Content-Type
					t.Fatalf("got %v, want no fields about limits", got)
				}
			}
			if w := ask(h, "/"); w.Code != want || (w.Header().Get("Retry-After") == "") != (want == 200) {
				t.Errorf("got %d with %v, want %d", w.Code, w.Header(), want)
			}
		})
	}
}

// Without a configuration, [httplimit.Everyone] says that callers share a limit.
func TestF35By(t *testing.T) {
	for _, c := range []struct {
		what    string
		key     httplimit.KeyFunc
		options []httplimit.ByOption
		apart   bool
	}{
		{"everyone", httplimit.Everyone(), nil, true},
		{"everyone, off", httplimit.Everyone(),
			[]httplimit.ByOption{httplimit.WithHeaders(policy.Headers{Jitter: new(float64)})}, false},
		{"by address", httplimit.ClientIP(), nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := httplimit.By(c.key, append(c.options, stint.PerMinute(1), httplimit.WithStore(memory(t)))...)(ok)
			ask(h, "/")
			seen := map[string]bool{}
			for range 100 {
				seen[ask(h, "/").Header().Get("Retry-After")] = true
			}
			if apart := len(seen) > 1; apart != c.apart || !apart && !seen["60"] {
				t.Errorf("%s: got %v", c.what, seen)
			}
		})
	}
}

// The cost of a request through the middleware: a text and the values of header fields that are
// parts of it. A caller other than the one before costs a name.
func TestAllocations(t *testing.T) {
	const most = 2
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		what    string
		handler http.Handler
	}{
		{"allowed", httplimit.New(guardOf(t, tierTable), signedIn())(next)},
		{"denied", httplimit.New(guardOf(t, tierTable))(next)},
		{"draft-11, allowed", httplimit.New(guardOf(t, "headers: {format: [x, draft-11]}"+tierTable),
			signedIn())(next)},
		{"draft-11, denied", httplimit.New(guardOf(t, "headers: {format: [x, draft-11]}"+tierTable))(next)},
	} {
		r := request(http.MethodGet, "/")
		w := &idle{http.Header{}}
		for range 50 { // the first are allowed, and the first denials are logged
			c.handler.ServeHTTP(w, r)
		}
		got := testing.AllocsPerRun(1000, func() { c.handler.ServeHTTP(w, r) })
		if got > most {
			t.Errorf("%s: got %v allocations, want at most %d", c.what, got, most)
		}
	}
}

// idle is a ResponseWriter that costs nothing.
type idle struct{ header http.Header }

func (w *idle) Header() http.Header             { return w.header }
func (*idle) Write(p []byte) (int, error)       { return len(p), nil }
func (*idle) WriteString(s string) (int, error) { return len(s), nil }
func (*idle) WriteHeader(int)                   {}

// signedIn makes every request one of a member of the tier that is never denied anything.
func signedIn() httplimit.GuardOption {
	return httplimit.WithClaims(func(_ *http.Request, name string) string {
		return map[string]string{"user": "42", "plan": "vast"}[name]
	})
}
