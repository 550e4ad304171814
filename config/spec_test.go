package config

import (
	"reflect"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
)

// everything uses every key of the language but those of the gateway and of usage.
const everything = `
store: {url: "redis://localhost:6379/0", prefix: 42}
failure: {mode: deny, budget: 20ms, instances: 3, memory: 8MiB, breaker: {failures: 3, probe: 1s, retry: 10s}}
client_ip: {trusted_proxies: [loopback, 10.0.0.0/8], header: x-real-ip, ipv4_prefix: 24, ipv6_prefix: 48}
claims: {plan: x-plan, user: X-User, tokens: X-Tokens}
identities:
  key: {header: x-key, type: apikey, plain: true}
  session: {cookie: sid}
  account: {claim: account}
  both: {all: [account, ip]}
bans: {after: 3, within: 1m30s, durations: [1m, 1d], forgive: 1d12h}
request_id: {header: Idempotency-Key, life: 1h}
contact: Ask us
headers: {format: draft-11, reset: delta, retry_after_jitter: 10%}
log: {admissions: 20, denials: 1000000}
webhooks: [{url: https://example.com/hook, key_file: /key}]
tiers:
  - name: pro
    match: {claim: {plan: [pro, team]}, host: "*.example.com", path: /**, method: [GET, POST], header: {X-Beta: "*"}, network: private}
    unless: {network: [192.0.2.0/24, loopback]}
    identity: [key, session]
    scope: route
    limits: [10/1m burst 2x, 100/1h, unlimited/1d]
    budget: {limit: 1000/1h, claim: tokens, max: 5000}
    rollout: 12.5%
    bans: {after: 0}
    failure: {mode: error, budget: strict}
    contact: "https://example.com/pro"
  - {name: 2, identity: ip, limits: 6/1m, budget: 100/month, notify: [50%, 80%], shadow: true}
policies:
  - {name: health, match: {path: /healthz}, skip: true}
  - name: search
    match: {method: [GET, POST], path: "/search/{kind}", host: example.com, header: {X-Beta: "*"}}
    identity: [both, ip]
    per: [kind, method]
    limits: {pro: ["login: 20/1m", 9/1s], default: unlimited}
    budget: 10/1m
    cost: {header: X-Cost, default: 2, max: 5}
    settle: {header: X-True-Cost, max_debt: 7}
    refund: [5xx, 404]
    request_id: {header: X-Request-Id, derive: 2s}
    failure: {mode: allow}
    contact: mailto:search@example.com
  - {name: export, match: {path: /export}, identity: everyone, limits: 2/1m, shadow: true}
  - {name: upload, match: {path: /upload}, limits: unlimited, budget: "bytes: 4/1m", cost: 3, settle: {bytes: 1KiB}, hold: 5m}
outbound:
  igdb: {preset: igdb, fail_fast: true, max_cooldown: 5m}
  own: {limits: 4/1s, max_wait: 30s, retries: 2, failure: {mode: local}}
`

// TestEveryKey compares what is read with the same policies in Go.
func TestEveryKey(t *testing.T) {
	got := parsed(t, everything)
	per := func(max int64, window time.Duration) []policy.Limit { return policy.Limits(stint.Per(max, window)) }
	failure := stint.FailurePolicy{Mode: stint.FailDeny, Budget: 20 * time.Millisecond}
	allow, local := failure, failure
	allow.Mode, local.Mode = stint.FailAllow, stint.FailLocal
	set, err := policy.New(policy.Spec{
		Failure:        failure,
		TrustedProxies: []string{"loopback", "10.0.0.0/8"}, ClientHeader: "x-real-ip", IPv4Prefix: 24, IPv6Prefix: 48,
		Claims: map[string]string{"plan": "x-plan", "user": "X-User", "tokens": "X-Tokens"},
		Identities: map[string]policy.Identity{
			"key": {Header: "x-key", Type: "apikey", Plain: true}, "session": {Cookie: "sid"}, "account": {Claim: "account"},
			"both": {All: []string{"account", "ip"}},
		},
		Bans: &stint.BanPolicy{After: 3, Within: 90 * time.Second, Durations: []time.Duration{time.Minute, 24 * time.Hour},
			Forgive: 36 * time.Hour},
		RequestID: "Idempotency-Key", RequestIDLife: time.Hour, Contact: "Ask us",
		Headers:       policy.Headers{OmitX: true, Draft11: true, ResetDelta: true, Jitter: new(0.1)},
		LogAdmissions: new(20), LogDenials: new(1_000_000),
		Tiers: []policy.Tier{
			{
				Name: "pro",
				Match: &policy.Match{Host: []string{"*.example.com"}, Path: []string{"/**"}, Method: []string{"GET", "POST"},
					Header: map[string][]string{"X-Beta": {"*"}}, Claim: map[string][]string{"plan": {"pro", "team"}},
					Network: []string{"private"}},
				Unless:   &policy.Match{Network: []string{"192.0.2.0/24", "loopback"}},
				Identity: []string{"key", "session"}, Scope: "route",
				Limits:  policy.Limits(stint.PerMinute(10).BurstTimes(2), stint.PerHour(100)),
				Budget:  []policy.Limit{{Limit: stint.PerHour(1000), Claim: "tokens", Max: 5000}},
				Rollout: new(0.125), Bans: &stint.BanPolicy{},
				Failure: &stint.FailurePolicy{Mode: stint.FailError, Budget: time.Second},
				Contact: "https://example.com/pro",
			},
			{Name: "2", Identity: []string{"ip"}, Limits: per(6, time.Minute), Budget: policy.Limits(stint.Monthly(100)),
				Notify: []int{50, 80}, Shadow: true},
		},
		Policies: []policy.Policy{
			{Name: "health", Match: &policy.Match{Path: []string{"/healthz"}}, Skip: true},
			{
				Name: "search",
				Match: &policy.Match{Method: []string{"GET", "POST"}, Path: []string{"/search/{kind}"},
					Host: []string{"example.com"}, Header: map[string][]string{"X-Beta": {"*"}}},
				Identity: []string{"both", "ip"}, Per: []string{"kind", "method"},
				TierLimits: map[string][]policy.Limit{
					"pro": policy.Limits(stint.PerMinute(20).WithName("login"), stint.PerSecond(9)), "default": {}},
				Budget:       per(10, time.Minute),
				Cost:         &policy.Cost{Header: "X-Cost", Units: 2, Min: 1, Max: 5},
				SettleHeader: "X-True-Cost", MaxDebt: 7, Refund: []int{5, 404},
				RequestID: "X-Request-Id", RequestIDDerive: 2 * time.Second,
				Failure: &allow, Contact: "mailto:search@example.com",
			},
			{Name: "export", Match: &policy.Match{Path: []string{"/export"}}, Identity: []string{"everyone"},
				Limits: per(2, time.Minute), Shadow: true},
			{Name: "upload", Match: &policy.Match{Path: []string{"/upload"}}, Limits: policy.Limits(),
				Budget: policy.Limits(stint.PerMinute(4).WithName("bytes")), Cost: &policy.Cost{Units: 3}, SettleBytes: 1 << 10, Hold: 5 * time.Minute},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	igdb := outbound.Presets()["igdb"]
	igdb.Name, igdb.FailFast, igdb.MaxCooldown, igdb.Failure = "igdb", true, 5*time.Minute, &failure
	want := &Config{
		Store:     Store{URL: "redis://localhost:6379/0", Prefix: "42"},
		Instances: 3, LocalBytes: 8 << 20, BreakerFailures: 3, BreakerProbe: time.Second, BreakerRetry: 10 * time.Second,
		Outbound: []outbound.API{igdb, {Name: "own", Limits: []stint.Limit{stint.PerSecond(4)}, MaxWait: 30 * time.Second,
			Retries: 2, Failure: &local}},
		Webhooks: []Webhook{{URL: "https://example.com/hook", KeyFile: "/key"}},
	}
	spec := *got.Set.Spec()
	spec.Source = nil
	if !reflect.DeepEqual(&spec, set.Spec()) {
		t.Errorf("got  %+v\nwant %+v", &spec, set.Spec())
	}
	rest := *got
	rest.Set, rest.Warnings = nil, nil
	if !reflect.DeepEqual(&rest, want) {
		t.Errorf("got  %+v\nwant %+v", &rest, want)
	}
}
