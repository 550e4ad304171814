package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

func TestMistakes(t *testing.T) {
	for _, test := range wrong {
		t.Run(test.name, func(t *testing.T) {
			set, err := Parse("stint.yaml", []byte(test.text))
			var config *Error
			if !errors.As(err, &config) || set != nil {
				t.Fatalf("got %v, %v; want a Error", set, err)
			}
			if got, want := err.Error(), strings.Join(test.want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			for _, m := range config.Mistakes {
				if m.File != "stint.yaml" || m.Line < 1 || m.Message == "" {
					t.Errorf("a mistake without a place or a message: %+v", m)
				}
			}
		})
	}
}

func TestManyMistakesAreOneText(t *testing.T) {
	var text strings.Builder
	text.WriteString("tiers:\n")
	for range 1000 {
		text.WriteString("  - {name: all, identity: ip, limits: 10}\n")
	}
	_, err := Parse("stint.yaml", []byte(text.String()))
	var config *Error
	if !errors.As(err, &config) {
		t.Fatal(err)
	}
	lines := strings.Split(err.Error(), "\n")
	if want := fmt.Sprintf("and %d more mistakes", len(config.Mistakes)-50); len(lines) != 51 || lines[50] != want {
		t.Errorf("got %d lines that end in %q, want 51 and %q", len(lines), lines[len(lines)-1], want)
	}
}

// TestAliasesAreBounded repeats a value more often than a configuration may have any.
func TestAliasesAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("tiers:\n  - {name: all, limits: 1/1m, identity: &a [" + strings.Repeat("ip,", 1000) + "]}\n")
	for range 200 {
		text.WriteString("  - {name: b, limits: 1/1m, identity: *a}\n")
	}
	_, err := Parse("stint.yaml", []byte(text.String()))
	const want = "stint.yaml:2: tiers[99].identity[598]: more than 100000 values in one file; aliases count as often as they are used"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%.400v\nwant\n%s", err, want)
	}
	for _, cyclic := range []string{"tiers: &a [*a]\n", "tiers: &a {name: *a}\n", "&a tiers: *a\n",
		"claims: &a {b: *a}\n", "tiers: [{name: x, limits: &l [*l]}]\n"} {
		if _, err := Parse("stint.yaml", []byte(cyclic)); err == nil {
			t.Errorf("%q is accepted", cyclic)
		}
	}
}

// everything uses every key of the language once.
const everything = `
store: {url: "redis://localhost:6379/0", prefix: 42}
failure: {mode: deny, budget: 10ms, instances: 3, memory: 8MiB, breaker: {failures: 3, probe: 1s, retry: 10s}}
client_ip: {trusted_proxies: [loopback, 10.0.0.0/8], header: X-Real-IP, ipv4_prefix: 24, ipv6_prefix: 48}
claims: {user: X-User, plan: X-Plan, tokens: X-Tokens}
identities:
  key: {header: X-Key, type: apikey, plain: true}
  session: {cookie: sid}
  account: {claim: account}
  both: {all: [account, ip]}
tiers:
  - name: pro
    match: {claim: {plan: [pro, team]}, host: "*.example.com", path: /**, method: [GET, POST], header: {X-Beta: "*"}, network: private}
    unless: {network: [192.0.2.0/24, loopback]}
    identity: [user, key]
    scope: route
    limits: [100/1m burst 3x, unlimited/1d]
    budget: {limit: 1000/1h, claim: tokens, max: 5000}
    rollout: 12.5%
    bans: {after: 0}
    failure: {mode: error, budget: strict}
  - {name: 2, identity: ip, limits: unlimited, shadow: true}
policies:
  - name: assets
    match: {path: /static/**}
    skip: true
  - name: api
    match: {path: "/v1/{team}"}
    identity: ip
    per: [team, method]
    limits: {pro: ["login: 5/15m", 9/1s], default: unlimited}
    budget: 77/1d
    cost: {header: X-Cost, default: 2, min: 1, max: 50}
    settle: {bytes: 1KiB, max_debt: 300}
    refund: [5xx, 404]
    shadow: false
  - {name: flat, cost: 10, settle: {header: X-True-Cost}, refund: 429, failure: {mode: allow}}
bans: {after: 10, within: 1m30s, durations: [1m, 1d], forgive: 1d12h}
request_id: {header: Idempotency-Key, life: 10m}
headers: {format: [x, draft-11], reset: delta, retry_after_jitter: 0%}
log: {admissions: 20, rejections: 1000000}
outbound:
  igdb: {preset: igdb, fail_fast: true, max_cooldown: 5m}
  own: {limits: 4/1s, max_wait: 30s, retries: 2, failure: {mode: local}}
`

func TestEveryKey(t *testing.T) {
	if _, err := Parse("stint.yaml", []byte(everything)); err != nil {
		t.Fatal(err)
	}
	var doc document
	r := newReader()
	r.files = []source{{name: "stint.yaml"}}
	(&decoder{reader: r}).decode([]byte(everything), &doc)
	share := func(p percent) *percent { return &p }
	units := func(n int64) *int64 { return &n }
	mode := func(m stint.FailureMode) *failureMode { f := failureMode(m); return &f }
	forgive := duration(36 * time.Hour)
	want := document{
		Store: storeDoc{URL: "redis://localhost:6379/0", Prefix: "42"},
		Failure: &failureDoc{Mode: mode(stint.FailDeny), Budget: budget(10 * time.Millisecond), Instances: 3,
			Memory: 8 << 20, Breaker: &breakerDoc{Failures: 3, Probe: duration(time.Second),
				Retry: duration(10 * time.Second)}},
		ClientIP: clientIPDoc{TrustedProxies: list{"loopback", "10.0.0.0/8"}, Header: "X-Real-IP", IPv4Prefix: 24,
			IPv6Prefix: 48},
		Claims: map[string]string{"user": "X-User", "plan": "X-Plan", "tokens": "X-Tokens"},
		Identities: map[string]identityDoc{
			"key":     {Header: "X-Key", Type: "apikey", Plain: true},
			"session": {Cookie: "sid"},
			"account": {Claim: "account"},
			"both":    {All: list{"account", "ip"}},
		},
		Tiers: []tierDoc{
			{
				Name: "pro",
				Match: &matchDoc{
					Host: list{"*.example.com"}, Path: list{"/**"}, Method: list{"GET", "POST"},
					Header: map[string]list{"X-Beta": {"*"}},
					Claim:  map[string]list{"plan": {"pro", "team"}}, Network: list{"private"},
				},
				Unless:   &matchDoc{Network: list{"192.0.2.0/24", "loopback"}},
				Identity: list{"user", "key"},
				Scope:    "route",
				Limits:   ruleLimits(policy.Limits(stint.PerMinute(100).WithBurst(3))),
				Budget:   ruleLimits{{Limit: stint.PerHour(1000), Claim: "tokens", Max: 5000}},
				Rollout:  share(12.5),
				Bans:     &bansDoc{},
				Failure:  &failureDoc{Mode: mode(stint.FailError), Budget: budget(time.Second)},
			},
			{Name: "2", Identity: list{"ip"}, Limits: ruleLimits{}, Shadow: true},
		},
		Policies: []policyDoc{
			{Name: "assets", Match: &matchDoc{Path: list{"/static/**"}}, Skip: true},
			{
				Name:     "api",
				Match:    &matchDoc{Path: list{"/v1/{team}"}},
				Identity: list{"ip"},
				Per:      list{"team", "method"},
				Limits: tierLimits{ByTier: map[string]ruleLimits{
					"pro":     policy.Limits(stint.Per(5, 15*time.Minute).WithName("login"), stint.PerSecond(9)),
					"default": {},
				}},
				Budget: tierLimits{All: ruleLimits(policy.Limits(stint.PerDay(77)))},
				Cost:   &costDoc{Header: "X-Cost", Default: units(2), Min: units(1), Max: units(50)},
				Settle: &settleDoc{Bytes: 1024, MaxDebt: new(int64(300))},
				Refund: statuses{5, 404},
			},
			{
				Name: "flat", Cost: &costDoc{Units: new(int64(10))}, Settle: &settleDoc{Header: "X-True-Cost"},
				Refund:  statuses{429},
				Failure: &failureDoc{Mode: mode(stint.FailAllow)},
			},
		},
		Bans: &bansDoc{After: 10, Within: duration(90 * time.Second),
			Durations: []duration{duration(time.Minute), duration(24 * time.Hour)}, Forgive: &forgive},
		RequestID: &requestIDDoc{Header: "Idempotency-Key", Life: duration(10 * time.Minute)},
		Headers:   headersDoc{Format: list{"x", "draft-11"}, Reset: "delta", Jitter: share(0)},
		Log:       logDoc{Admissions: units(20), Rejections: units(1_000_000)},
		Outbound: map[string]outboundDoc{
			"igdb": {Preset: "igdb", FailFast: true, MaxCooldown: duration(5 * time.Minute)},
			"own": {Limits: limitList{stint.PerSecond(4)}, MaxWait: duration(30 * time.Second), Retries: 2,
				Failure: &failureDoc{Mode: mode(stint.FailLocal)}},
		},
	}
	if !reflect.DeepEqual(doc, want) {
		t.Errorf("got  %+v\nwant %+v", doc, want)
	}
	for _, key := range []string{"tiers[0].limits[1]", "identities.both.all", "policies[1].limits.default",
		"headers.retry_after_jitter"} {
		if !r.has(key) {
			t.Errorf("%s is not known to stand in the file", key)
		}
	}
	for _, key := range []string{"tiers[0].shadow", "tiers[2]", "policies[0].limits"} {
		if r.has(key) {
			t.Errorf("%s is said to stand in the file", key)
		}
	}
}

// good are configurations that are read.
var good = []struct{ name, text string }{
	{"base", base},
	{"everything", everything},
	{"beginning with dashes", "---\n" + base},
	{"with a byte order mark", "\ufeff" + base},
	{"with the ends of lines of Windows", strings.ReplaceAll(base, "\n", "\r\n")},
	{"names that are numbers", "tiers:\n  - {name: 42, identity: user, limits: 1/s}\n  - {name: 1.5, identity: ip, limits: 1/d}\n"},
	{"anchors", "tiers:\n  - {name: a, identity: user, limits: &l [10/1m, 100/1h]}\n  - {name: b, identity: ip, limits: *l}\n"},
	{"no policies", base + "policies: []\n"},
	{"nothing costs nothing", base + "policies:\n  - {name: free, match: {path: /}, cost: 0}\n"},
}

func TestGood(t *testing.T) {
	for _, test := range good {
		if _, err := Parse("stint.yaml", []byte(test.text)); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
