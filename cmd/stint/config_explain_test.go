package main

import (
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// TestExplain compares explanations of the example with the files in testdata.
func TestExplain(t *testing.T) {
	tests := []struct {
		golden string
		args   []string
	}{
		{"explain_anonymous.txt", []string{"--request", "/api/x"}},
		{"explain_pro.txt", []string{"--request", "POST /api/simulation/start", "--claim", "user=42", "--claim",
			"plan=pro", "--header", "Idempotency-Key: 7"}},
		{"explain_pro.json", []string{"--request", "POST /api/simulation/start", "--claim", "user=42", "--claim",
			"plan=pro", "--header", "Idempotency-Key: 7", "--json"}},
		{"explain_skipped.txt", []string{"--request", "GET /static/app.css?v=3"}},
		{"explain_skipped.json", []string{"--request", "GET /static/app.css?v=3", "--json"}},
		{"explain_apikey.txt", []string{"--request", "GET https://api.example.com/api/pdb/1crn", "--claim", "key=k7",
			"--peer", "203.0.113.9"}},
		{"explain_proxy.txt", []string{"--request", "/api/pdb/1crn", "--peer", "127.0.0.1", "--header",
			"X-Forwarded-For: 2001:db8::7", "--header", "X-User-ID: 42"}},
		{"explain_internal.txt", []string{"--request", "/api/pdb/1crn", "--claim", "service=billing", "--peer", "unix"}},
	}
	for _, test := range tests {
		t.Run(test.golden, func(t *testing.T) {
			got := execute(t, "", append([]string{"config", "explain", example}, test.args...)...)
			if got.code != exitGood || got.stderr != "" {
				t.Errorf("exit code %d, errors %q; want 0 and none", got.code, got.stderr)
			}
			testkit.Golden(t, *update, test.golden, got.stdout)
		})
	}
}

// TestExplainRules explains the parts of a configuration that the example does not have.
func TestExplainRules(t *testing.T) {
	config := `
identities:
  key: {header: X-Key}
tiers:
  - {name: keyed, identity: key, limits: 10/1m, bans: {after: 1, within: 1m, durations: [90m]}, failure: {mode: deny, budget: 5ms}}
  - {name: all, identity: ip, limits: unlimited, bans: {after: 0}, failure: {mode: allow}}
policies:
  - {name: plan, match: {path: /plan}, limits: [2/1s, {limit: 60/1m, claim: rpm, max: 1000}]}
  - {name: trial, shadow: true, match: {host: "*.example.com"}, limits: 5/1s bucket}
  - {name: bytes, match: {path: /files/**}, budget: 100/1h, settle: {bytes: 1KiB}, failure: {mode: error}}
`
	tests := []struct {
		args []string
		want []string // lines of the output
	}{
		{[]string{"--request", "/", "--header", "X-Key: secret, with a comma"}, []string{
			"  key:a38a11e5ffa3349a9db45a51886d8de3:global  1 request  tier keyed  10/1m",
			"bans         after 1 denial within 1m, for 1h30m; forgiven after 24h",
			"store fails  deny, after 5ms: it is denied",
			"afterwards   none",
		}},
		{[]string{"--request", "/", "--header", "Host: a.example.com"}, []string{
			"host     a.example.com",
			"  ip:192.0.2.1:trial  1 request  policy trial, in shadow: not enforced  5/1s bucket",
		}},
		{[]string{"--request", "/plan", "--claim", "rpm=5000"}, []string{
			"  ip:192.0.2.1:plan  1 request  policy plan  2/1s, 1000/1m",
			"limits by claim",
			"  1000/1m  plan  the claim rpm is 5000, which is above its max",
		}},
		{[]string{"--request", "/files//a/../b%0Ac", "--claim", "user=1"}, []string{
			`request  "GET /files/b\nc"`,
			"  ip:192.0.2.1:bytes  cost 1  policy bytes  cost: 100/1h",
			"store fails  error, after 15ms: the caller gets the error",
			"afterwards   budgets are settled at a unit per 1024 bytes of response body",
		}},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			got := execute(t, config, append([]string{"config", "explain", "-"}, test.args...)...)
			for _, want := range test.want {
				if !strings.Contains("\n"+got.stdout, "\n"+want+"\n") {
					t.Errorf("no line %q in:\n%s%s", want, got.stdout, got.stderr)
				}
			}
		})
	}
}

// TestExplainSecret checks that the output does not contain secrets of the request.
func TestExplainSecret(t *testing.T) {
	config := "identities: {key: {header: X-Key}, session: {cookie: s}}\n" +
		"tiers: [{name: keyed, identity: [key, session], limits: 10/1m}, {name: all, identity: ip, limits: 10/1m}]\n"
	for _, header := range []string{"X-Key: hunter2", "Cookie: s=hunter2", "Authorization: hunter2"} {
		for _, form := range []string{"--json=false", "--json"} {
			got := execute(t, config, "config", "explain", "-", "--request", "/?token=hunter2", "--header", header, form)
			if got.code != exitGood || strings.Contains(got.stdout+got.stderr, "hunter2") {
				t.Errorf("%s, %s: %+v", header, form, got)
			}
		}
	}
}

func TestExplainBadConfiguration(t *testing.T) {
	got := execute(t, "tiers: [{name: all, identity: ip, limits: 10/1m, colour: red}]", "config", "explain", "-", "--request", "/")
	if want := "<stdin>:1: tiers[0].colour: "; got.code != exitBad || got.stdout != "" || !strings.HasPrefix(got.stderr, want) {
		t.Errorf("got %+v, want 1 and %q", got, want)
	}
}
