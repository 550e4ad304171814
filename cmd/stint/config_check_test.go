package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

const small = "tiers: [{name: all, identity: ip, limits: 10/1m}]\n"

// bad has an invalid limit and an unknown identity.
const bad = `tiers:
  - name: all
    identity: ip
    limits: 10/fortnight
policies:
  - name: login
    match: {path: /login}
    identity: users
    limits: 5/15m
`

// smallTotal is the line of output that describes the tier of small.
const smallTotal = "  tier all: 10 requests in any minute, over all routes\n"

// everyTotal has a tier of every kind. The first policy exempts requests, and the others are
// routes. All other requests count as one more route.
const everyTotal = `
client_ip: {trusted_proxies: loopback}
claims: {a: X-A, b: X-B, c: X-C, d: X-D}
tiers:
  - {name: a, match: {claim: {a: "*"}}, identity: ip, scope: route, limits: [30/1m burst 2x, 500/1h]}
  - {name: b, match: {claim: {b: "*"}}, identity: ip, limits: 10/1s burst 25 bucket, budget: 1/1h}
  - {name: c, match: {claim: {c: "*"}}, identity: ip, scope: none, limits: [3/30s concurrency, 9/90s fixed]}
  - {name: d, match: {claim: {d: "*"}}, identity: ip, scope: api, limits: 1/1d, shadow: true}
  - {name: e, identity: ip, limits: 10/1m, rollout: 12.5%}
policies:
  - {name: assets, match: {path: /static/**}, skip: true}
  - {name: one, match: {path: /one}, cost: 1}
  - {name: two, match: {path: /two}, cost: 1}
  - {name: three, match: {path: /three}, cost: 1}
`

func TestCheckGood(t *testing.T) {
	unlimited := testkit.TempFile(t, "unlimited.yaml", "tiers: [{name: all, identity: ip, limits: unlimited}]\n")
	routes := testkit.TempFile(t, "routes.yaml", small+"gateway: {routes: [{upstream: http://a}, {host: [b, c], upstream: http://b}]}\n")
	tests := []struct {
		stdin string
		path  string
		want  string
		warns string
	}{
		{"", routes, routes + ": good: 1 tier, 0 policies, 0 outbound APIs, 3 gateway routes\n" + smallTotal, ""},
		{"", example, example + `: good: 5 tiers, 8 policies, 5 outbound APIs
  tier internal: 1000 requests in any minute, over all routes
  tier enterprise: 2500 requests in any minute, 10000 in any hour, over all routes
  tier pro: 300 requests in any minute, 2000 in any hour, 48000 in any day, over all routes
  tier free: 60 requests in any minute, 500 in any hour, 5000 in any day, over all routes
  tier anonymous: 20 requests in any minute, 100 in any hour, 1000 in any day, over all routes
`, example + ":42: warning: tiers[2].limits[2]: 50000/1d has no effect: " +
			"2000/1h allows at most 48000/1d; lower it, raise 2000/1h, or leave it out\n"},
		{small, "-", "<stdin>: good: 1 tier, 0 policies, 0 outbound APIs\n" + smallTotal, ""},
		{"", unlimited, unlimited + ": good: 1 tier, 0 policies, 0 outbound APIs\n  tier all: unlimited\n", ""},
		{"tiers: [{name: all, identity: ip, scope: route, limits: [1/1s, 100/1m, 10/1s burst 25 bucket]}]\npolicies: [{name: one, match: {path: /one}, cost: 1}]\n",
			"-", "<stdin>: good: 1 tier, 1 policy, 0 outbound APIs\n" +
				"  tier all: 1 request in any second, 60 in any minute, 1 at once and 1 more per second, on each of 2 routes: " +
				"up to 2 requests in any second, 120 in any minute, 2 at once and 2 more per second in total\n",
			"<stdin>:1: warning: tiers[0].limits[1]: 100/1m has no effect: 1/1s allows at most 60/1m; lower it, raise 1/1s, or leave it out\n" +
				"<stdin>:1: warning: tiers[0].limits[2]: 10/1s burst 25 bucket has no effect: 1/1s allows at most 1/1s; lower it, raise 1/1s, or leave it out\n"},
		{"tiers: [{name: all, identity: ip, limits: [5/1s, {limit: 60/1m burst 2x, claim: rpm, max: 1000}, 100000/1d]}]\n",
			"-", "<stdin>: good: 1 tier, 0 policies, 0 outbound APIs\n" +
				"  tier all: 5 requests in any second, 120 in any minute (up to 300 by the claim rpm), 86519 in any day (up to 100000 by claims), over all routes\n", ""},
		{everyTotal, "-", `<stdin>: good: 5 tiers, 4 policies, 0 outbound APIs
  tier a: 60 requests in any minute, 500 in any hour, on each of 4 routes: up to 240 requests in any minute, 2000 in any hour in total
  tier b: 25 requests at once and 10 more per second, 1 cost unit in any hour, over all routes
  tier c: 3 requests at the same time, 9 in each clock 1m30s, over all routes
  tier d: 1 request in any day, over all routes; in shadow: not enforced
  tier e: 10 requests in any minute, over all routes; enforced for 12.5% of the callers
`, ""},
	}
	for _, test := range tests {
		want := result{stdout: test.want, stderr: test.warns}
		if got := execute(t, test.stdin, "config", "check", test.path); got != want {
			t.Errorf("%s: got %+v, want %+v", test.path, got, want)
		}
	}
	// As JSON, with a mistake.
	testkit.Golden(t, *update, "check.json", execute(t, "tiers: []\n", "config", "check", "--json", example, "-").stdout)
}

// TestCheckWarnings checks that warnings are shown, but are mistakes only with --strict.
func TestCheckWarnings(t *testing.T) {
	text := small + "policies: [{name: user, match: {method: GTE, path: '/users/:id'}, limits: 1/1s}]\n"
	const warnings = `<stdin>:2: warning: policies[0].match.path: ":id" is matched literally in "/users/:id"; write /users/{id}
<stdin>:2: warning: policies[0].match.method: "GTE" is not an HTTP method (did you mean "GET"?)
`
	want := result{stdout: "<stdin>: good: 1 tier, 1 policy, 0 outbound APIs\n" + smallTotal, stderr: warnings}
	if got := execute(t, text, "config", "check", "-"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want = result{stderr: warnings + "<stdin>: 2 warnings; --strict treats them as mistakes\n", code: exitBad}
	if got := execute(t, text, "config", "check", "--strict", "-"); got != want {
		t.Errorf("--strict: got %+v, want %+v", got, want)
	}
	if got := execute(t, small, "config", "check", "--strict", "-"); got.code != exitGood || got.stderr != "" {
		t.Errorf("--strict without warnings: got %+v", got)
	}
}

// TestCheckEnvoy checks rules for Envoy's service, in the format that serve reads.
func TestCheckEnvoy(t *testing.T) {
	const shop = "domain: shop\ndescriptors:\n  - {key: a, rate_limit: {unit: hour, requests_per_unit: 1}}\n"
	good := testkit.TempFile(t, "good.yaml", shop)
	wrong := testkit.TempFile(t, "wrong.yaml", "domain: shop\ndescriptors:\n  - key: a\n    rate_limit: {unit: fortnight, requests_per_unit: 1}\n  - {keys: b}\n")
	twice := filepath.Dir(testkit.TempFile(t, "a.yaml", shop))
	testkit.WriteFile(t, filepath.Join(twice, "b.yaml"), "domain: shop\ndescriptors:\n  - {key: b, rate_limit: {unit: hour, requests_per_unit: 1}}\n")
	for name, test := range map[string]struct {
		args           []string
		code           int
		stdout, stderr []string
	}{
		"good":    {[]string{good}, exitGood, []string{good + ": good: 1 domain, 1 limit\n"}, nil},
		"example": {[]string{"../../examples/proxies/envoy/rules"}, exitGood, []string{": good: 1 domain, "}, nil},
		"mistakes": {[]string{wrong, good}, exitBad, []string{good + ": good"},
			[]string{wrong + ":4: ", wrong + ":5: "}},
		"directory": {[]string{twice}, exitBad, nil, []string{filepath.Join(twice, "b.yaml") + ":1: "}},
		"merged":    {[]string{twice, "--envoy-merge-domains"}, exitGood, []string{"good: 1 domain, 2 limits"}, nil},
		"JSON":      {[]string{good, "--json"}, exitGood, []string{`"envoy": {`, `"domains": 1`, `"limits": 1`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := execute(t, "", append([]string{"config", "check", "--envoy"}, test.args...)...)
			if got.code != test.code {
				t.Errorf("exit code %d, want %d", got.code, test.code)
			}
			for _, want := range test.stdout {
				if !strings.Contains(got.stdout, want) {
					t.Errorf("output %q, want %q", got.stdout, want)
				}
			}
			for _, want := range test.stderr {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("errors %q, want %q", got.stderr, want)
				}
			}
		})
	}
}

// TestCheckHuge checks that standard input that is too long is rejected, although its beginning is
// valid.
func TestCheckHuge(t *testing.T) {
	huge := strings.Repeat("#", maxStdin) + "\n"
	for _, args := range [][]string{{"config", "check", "-"}, {"config", "check", "--envoy", "-"}} {
		if got := execute(t, huge, args...); got.code != exitBad || !strings.HasPrefix(got.stderr, "<stdin>:1: oversized") {
			t.Errorf("%q: exit code %d, errors %q, want exit code %d and oversized", args, got.code, got.stderr, exitBad)
		}
	}
}
