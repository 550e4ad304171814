package api_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/resilience"
)

// usage is what a decision says of its limits: "free 1/9".
func usage(d decision) (text string) {
	for i, l := range d.Limits {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %d/%d", l.Policy, l.Used, l.Remaining)
	}
	return text
}

func TestWholeDecision(t *testing.T) {
	s := serve(t, guardtest.Memory(t), rules)
	a := s.post("/v1/take", `{"method":"GET","path":"/search","peer":"203.0.113.9","claims":{"user":"1","plan":"pro"}}`)
	d := a.decision(200)
	if d.Tier != "pro" || d.Policy != "pro" || d.Route != "search" || d.Cost != 4 || *d.RetryAfter != 0 ||
		d.Charge == "" || d.Repeat {
		t.Errorf("got %+v", d)
	}
	l := d.Limits[0]
	if l.Limit != "100/1m burst 3x" || l.Max != 100 || l.Window != 60 || l.Burst != 300 || *l.RetryAfter != 0 ||
		*l.ResetAfter == 0 {
		t.Errorf("got %+v", l)
	}
	if l := d.Limits[1]; l.Name != "cost" || l.Used != 4 {
		t.Errorf("got %+v", l)
	}
	for name, want := range map[string]string{
		"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "46", "X-RateLimit-Policy": "pro",
		"X-RateLimit-Tier": "pro", "X-RateLimit-Cost": "4", "Cache-Control": "no-store", "Retry-After": "",
	} {
		if got := a.Header().Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}

	if d := s.post("/v1/take", `{"method":"GET","path":"/healthz","peer":"::1"}`).decision(200); d.Skipped != "health" || d.Charge != "" {
		t.Errorf("got %+v", d)
	}
	for _, n := range []int{0, 1} {
		d := s.post("/v1/take", `{"method":"GET","path":"/trial","peer":"203.0.113.9"}`).decision(200)
		if len(d.Shadowed) != n || n == 1 && d.Shadowed[0] != "trial" {
			t.Errorf("request %d: shadowed %v", n, d.Shadowed)
		}
	}
}

func TestDeniedDecision(t *testing.T) {
	s := serve(t, guardtest.Memory(t), rules)
	s.post("/v1/take", `{"subject":"job","limits":["1/1m"]}`)
	a := s.post("/v1/take", `{"subject":"job","limits":["1/1m"]}`)
	d := a.decision(429)
	if *d.RetryAfter < 59 || *d.RetryAfter > 60 || d.Charge != "" || d.Policy != "limits" {
		t.Errorf("got %+v", d)
	}
	if a.Header().Get("Retry-After") == "" || a.Header().Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("got %v", a.Header())
	}
	a = s.post("/v1/take", `{"subject":"job","limits":["1/1m"],"cost":2}`)
	if d := a.decision(429); d.RetryAfter != nil || a.Header().Get("Retry-After") != "" {
		t.Errorf("a cost that never fits: %+v, Retry-After %q", d, a.Header().Get("Retry-After"))
	}
	if d := s.post("/v1/take", `{"subject":"odd","limits":["1/1500us"]}`).decision(200); d.Limits[0].Window != 0.0015 {
		t.Errorf("window_seconds is %v, want 0.0015", d.Limits[0].Window)
	}
	if d := s.post("/v1/take", `{"subject":"big","limits":["9007199254740992/1m"],"cost":9007199254740992}`).decision(200); d.Limits[0].Used != stint.MaxUnits {
		t.Errorf("used %d, want 2^53", d.Limits[0].Used)
	}
	const contact = "contact: mailto:help@example.com\n"
	s = serve(t, guardtest.Memory(t), contact+strings.Replace(authConfig, "2/1m", "0/1m", 1))
	if d := s.post("/v1/take", `{"subject":"ip:203.0.113.9","tier":"anonymous"}`).decision(429); d.Contact != "mailto:help@example.com" {
		t.Errorf("got the contact %q", d.Contact)
	}
	if w := asked(s, http.MethodGet, "/auth", proxy, told...); !strings.Contains(w.Body.String(), "mailto:help@example.com") {
		t.Errorf("forward-auth answers %s", w.Body)
	}
}

// A ban applies however the subject is named.
func TestBans(t *testing.T) {
	s := serve(t, guardtest.Memory(t), "bans: {after: 2, within: 1m, durations: [1h]}\n"+rules)
	const body = `{"method":"GET","path":"/","peer":"203.0.113.9"}`
	for range 5 {
		s.post("/v1/take", body)
	}
	for _, body := range []string{body, `{"subject":"ip:203.0.113.9","policy":"login"}`,
		`{"subject":"ip:203.0.113.9","limits":["9/1m"]}`} {
		if d := s.post("/v1/take", body).decision(429); !d.Banned || *d.RetryAfter < 3_000 {
			t.Errorf("%s: got %+v", body, d)
		}
	}
}

// Callers may repeat a denial that is sure to last, and no other.
func TestCacheable(t *testing.T) {
	plain := serve(t, guardtest.Memory(t), rules)
	banning := serve(t, guardtest.Memory(t), "bans: {after: 9, within: 1m, durations: [1h]}\n"+rules)
	for _, c := range []struct {
		s          *server
		path, body string
		times      int
		want       bool
	}{
		{plain, "/v1/take", `{"subject":"a","limits":["1/1h"]}`, 1, true},
		{plain, "/v1/take", `{"method":"GET","path":"/","peer":"203.0.113.9"}`, 3, true},
		{plain, "/v1/take", `{"subject":"a","policy":"slots"}`, 2, false},
		{plain, "/v1/take", `{"subject":"a","tier":"free","and":[{"subject":"b","policy":"slots"}]}`, 2, false},
		{plain, "/v1/take", `{"subject":"b","limits":["1/1h"],"hold_seconds":60}`, 1, false},
		{plain, "/v1/take", `{"subject":"e","limits":["1/1h leased"]}`, 1, false},
		{plain, "/v1/take", `{"subject":"everyone","limits":["1/1h"]}`, 1, false},
		{plain, "/v1/take", `{"subject":"a","limits":["0/1h"]}`, 0, false},
		{plain, "/v1/reserve", `{"subject":"c","limits":["1/1h"],"max_wait_seconds":1}`, 1, false},
		{plain, "/v1/wait", `{"subject":"d","limits":["1/1h"],"max_wait_seconds":0.001}`, 1, false},
		{banning, "/v1/take", `{"method":"GET","path":"/","peer":"203.0.113.9"}`, 3, false},
		{banning, "/v1/take", `{"subject":"a","tier":"anonymous"}`, 3, true},
	} {
		for range c.times {
			if d := c.s.post(c.path, c.body).decision(200); d.Cacheable {
				t.Errorf("%s: an admission is cacheable", c.body)
			}
		}
		if d := c.s.post(c.path, c.body).decision(429); d.Cacheable != c.want {
			t.Errorf("%s %s: cacheable is %v", c.path, c.body, d.Cacheable)
		}
	}
}

// A policy or a tier that is named says what happens if the store fails, and so does one that
// matches.
func TestFailures(t *testing.T) {
	const text = `failure: {mode: deny}
tiers:
  - {name: pro, identity: user, limits: 3/1m, scope: none, failure: {mode: allow}}
  - {name: own, identity: user, limits: 3/1m, match: {claim: {plan: own}}, failure: {mode: local}}
  - {name: all, identity: ip, limits: 3/1m, scope: route}
policies:
  - {name: login, match: {path: /login}, limits: 9/2m, failure: {mode: error}}
  - {name: search, match: {path: /search}, limits: 9/2m}
`
	s := serve(t, guardtest.Stack(t, failing, resilience.Config{}), text)
	for body, want := range map[string]string{
		`{"subject":"a","policy":"login"}`:               "503 unavailable",
		`{"subject":"a","policy":"login","tier":"pro"}`:  "503 unavailable",
		`{"subject":"a","policy":"search"}`:              "503 unavailable",
		`{"subject":"a","policy":"search","tier":"pro"}`: "200 ",
		`{"subject":"a","tier":"pro"}`:                   "200 ",
		`{"subject":"a","tier":"own"}`:                   "200 ",
		`{"subject":"a","tier":"all"}`:                   "503 unavailable",
		`{"subject":"a","limits":["3/1m"]}`:              "503 unavailable",
		`{"method":"GET","path":"/login","peer":"::1"}`:  "503 unavailable",
		`{"method":"GET","path":"/search","peer":"::1"}`: "503 unavailable",
	} {
		a := s.post("/v1/take", body)
		var p struct {
			Error             string
			Allowed, Degraded bool
		}
		a.loosely(&p)
		good := a.Code == http.StatusOK
		if got := fmt.Sprint(a.Code, " ", p.Error); got != want || p.Allowed != good || p.Degraded != good ||
			!good && a.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: got %s, %+v; want %s", body, a.Body, p, want)
		}
	}
}

// The body says what the Retry-After of its answer says: the exact time, and where a limit of all
// callers denied with the same jitter.
func TestRetryAfterAgrees(t *testing.T) {
	for identity, want := range map[string]bool{"ip": false, "everyone": true} {
		s := serve(t, guardtest.Memory(t), "tiers: [{name: all, identity: "+identity+", limits: 1/1h}]")
		seen := map[string]bool{}
		const body = `{"method":"GET","path":"/","peer":"203.0.113.9"}`
		s.post("/v1/take", body).decision(200)
		for range 50 {
			a := s.post("/v1/take", body)
			d, after := a.decision(429), a.Header().Get("Retry-After")
			if got := fmt.Sprint(math.Ceil(*d.RetryAfter)); got != after {
				t.Errorf("%s: the body says %v, the header %s", identity, *d.RetryAfter, after)
			}
			if exact := *d.Limits[0].RetryAfter; exact > 3600 || *d.RetryAfter < exact {
				t.Errorf("%s: the body says %v, its limit %v", identity, *d.RetryAfter, exact)
			}
			if *d.RetryAfter > 3600 {
				seen[after] = true
			}
		}
		if spread := len(seen) > 0; spread != want {
			t.Errorf("%s: got the times %v above the exact one", identity, seen)
		}
	}
}

// What fails is told for each request; a mistake that only the store knows too.
func TestBatchFailures(t *testing.T) {
	s := serve(t, failing, rules)
	var got batch
	s.post("/v1/batch", `{"requests":[{"subject":"a","tier":"free"},{"method":"GET","path":"/healthz","peer":"::1"}]}`).into(http.StatusOK, &got)
	if got.Results[0].Status != 503 || got.Results[0].Problem.Error != "unavailable" || got.Results[1].Status != 200 {
		t.Errorf("got %+v", got)
	}
	const one = `{"subject":"a","tier":"free","mode":"peek"}`
	s = serve(t, guardtest.Memory(t), rules)
	s.post("/v1/batch", `{"requests":[`+one+strings.Repeat(","+one, 99)+`]}`).into(http.StatusOK, &got) // as many as may be
	s = serve(t, refusingStore{}, rules)
	s.post("/v1/batch", `{"requests":[{"subject":"a","tier":"free"}]}`).into(http.StatusOK, &got)
	if r := got.Results[0]; r.Status != 400 || r.Problem.Mistakes[0].Message != "cannot be decided: not here" {
		t.Errorf("got %+v", got)
	}
}

// refusingStore finds every request invalid.
type refusingStore struct{ stint.Store }

func (refusingStore) Take(context.Context, stint.Request) (stint.Decision, error) {
	return stint.Decision{}, &stint.InvalidError{Err: fmt.Errorf("not here")}
}

// TestTogether: several subjects are charged all or none, and a charge amends them all.
func TestTogether(t *testing.T) {
	s := serve(t, guardtest.Memory(t), rules+"  - {name: account, match: {path: /account}, identity: ip, limits: 1/1m}\n")
	login := func(path string, status int, want string) decision {
		t.Helper()
		d := s.post(path, `{"subject":"ip:1","policy":"login","and":[{"subject":"account:ann","policy":"account"}]}`).
			decision(status)
		if got := usage(d); got != want || d.Limits[0].Subject != "ip:1" || d.Limits[1].Subject != "account:ann" {
			t.Errorf("got %q of %+v, want %q", got, d.Limits, want)
		}
		return d
	}
	login("/v1/peek", 200, "login 0/2, account 0/1")
	first := login("/v1/take", 200, "login 1/1, account 1/0")
	denied := login("/v1/take", 429, "login 1/1, account 1/0") // neither is charged
	if denied.Policy != "account" || denied.Charge != "" {
		t.Errorf("denied by %s: %+v", denied.Policy, denied.Limits)
	}
	if !s.post("/v1/refund", withCharge(first.Charge, "")).changed() {
		t.Error("nothing is refunded")
	}
	login("/v1/peek", 200, "login 0/2, account 0/1")
}
