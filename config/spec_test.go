package config_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// inYAML and inGo are the same policies, with every key that package policy knows.
const inYAML = `
failure: {mode: deny, budget: 20ms}
client_ip: {trusted_proxies: [10.0.0.0/8], header: x-real-ip, ipv4_prefix: 24, ipv6_prefix: 48}
claims: {plan: x-plan}
identities:
  key: {header: x-key, type: apikey, plain: true}
  session: {cookie: sid}
  account: {claim: account}
  both: {all: [account, ip]}
bans: {after: 3, within: 1m, durations: [1m, 1h], forgive: 2h}
request_id: {header: Idempotency-Key, life: 1h}
contact: Ask us
headers: {format: draft-11, reset: delta, retry_after_jitter: 10%}
tiers:
  - name: pro
    match: {claim: {plan: [pro, team]}}
    unless: {network: 192.0.2.7}
    identity: [key, session]
    scope: route
    limits: [10/1m burst 2x, 100/1h]
    budget: 50/1h
    rollout: 50%
    bans: {after: 0}
    failure: {mode: allow}
    contact: "https://example.com/pro"
  - {name: anyone, identity: ip, limits: 6/1m, shadow: false}
policies:
  - {name: health, match: {path: /healthz}, skip: true}
  - name: search
    match: {method: [GET, POST], path: "/search/{kind}", host: example.com, header: {X-Beta: "*"}}
    identity: [both, ip]
    per: [kind, method]
    limits: {pro: 20/1m, default: 3/1m}
    budget: 10/1m
    cost: {header: X-Cost, default: 2, max: 5}
    settle: {header: X-True-Cost, max_debt: 7}
    refund: [5xx, 404]
    request_id: {header: X-Request-Id, derive: 2s}
    failure: {mode: error}
    contact: mailto:search@example.com
  - {name: export, match: {path: /export}, identity: everyone, limits: 2/1m, shadow: true}
  - {name: upload, match: {path: /upload}, limits: unlimited, budget: 4/1m, cost: 3, settle: {bytes: 1KiB}}
`

func inGo() policy.Spec {
	per := func(max int64, window time.Duration) []policy.Limit { return policy.Limits(stint.Per(max, window)) }
	burst := stint.PerMinute(10)
	burst.Burst = 20
	return policy.Spec{
		Failure:        stint.FailurePolicy{Mode: stint.FailDeny, Budget: 20 * time.Millisecond},
		TrustedProxies: []string{"10.0.0.0/8"}, ClientHeader: "x-real-ip", IPv4Prefix: 24, IPv6Prefix: 48,
		Claims: map[string]string{"plan": "x-plan"},
		Identities: map[string]policy.Identity{
			"key": {Header: "x-key", Type: "apikey", Plain: true}, "session": {Cookie: "sid"},
			"account": {Claim: "account"},
			"both":    {All: []string{"account", "ip"}},
		},
		Bans: &stint.BanPolicy{After: 3, Within: time.Minute, Durations: []time.Duration{time.Minute, time.Hour},
			Forgive: 2 * time.Hour},
		RequestID: "Idempotency-Key", RequestIDLife: time.Hour,
		Contact: "Ask us",
		Headers: policy.Headers{OmitX: true, Draft11: true, ResetDelta: true, Jitter: new(0.1)},
		Tiers: []policy.Tier{
			{
				Name:     "pro",
				Match:    &policy.Match{Claim: map[string][]string{"plan": {"pro", "team"}}},
				Unless:   &policy.Match{Network: []string{"192.0.2.7"}},
				Identity: []string{"key", "session"},
				Scope:    "route",
				Limits:   policy.Limits(burst, stint.PerHour(100)),
				Budget:   per(50, time.Hour),
				Rollout:  new(0.5),
				Bans:     &stint.BanPolicy{},
				Failure:  &stint.FailurePolicy{Mode: stint.FailAllow, Budget: 20 * time.Millisecond},
				Contact:  "https://example.com/pro",
			},
			{Name: "anyone", Identity: []string{"ip"}, Limits: per(6, time.Minute)},
		},
		Policies: []policy.Policy{
			{Name: "health", Match: &policy.Match{Path: []string{"/healthz"}}, Skip: true},
			{
				Name: "search",
				Match: &policy.Match{
					Method: []string{"GET", "POST"}, Path: []string{"/search/{kind}"}, Host: []string{"example.com"},
					Header: map[string][]string{"X-Beta": {"*"}},
				},
				Identity:     []string{"both", "ip"},
				Per:          []string{"kind", "method"},
				TierLimits:   map[string][]policy.Limit{"pro": per(20, time.Minute), "default": per(3, time.Minute)},
				Budget:       per(10, time.Minute),
				Cost:         &policy.Cost{Header: "X-Cost", Units: 2, Min: 1, Max: 5},
				SettleHeader: "X-True-Cost", MaxDebt: 7,
				Refund:    []int{5, 404},
				RequestID: "X-Request-Id", RequestIDDerive: 2 * time.Second,
				Failure: &stint.FailurePolicy{Mode: stint.FailError, Budget: 20 * time.Millisecond},
				Contact: "mailto:search@example.com",
			},
			{Name: "export", Match: &policy.Match{Path: []string{"/export"}}, Identity: []string{"everyone"},
				Limits: per(2, time.Minute), Shadow: true},
			{
				Name: "upload", Match: &policy.Match{Path: []string{"/upload"}}, Limits: policy.Limits(),
				Budget: per(4, time.Minute),
				Cost:   &policy.Cost{Units: 3}, SettleBytes: 1 << 10,
			},
		},
	}
}

// TestSameInGo decides the same requests by a set from YAML and by the same one in Go.
func TestSameInGo(t *testing.T) {
	read, err := config.Parse("stint.yaml", []byte(inYAML))
	if err != nil {
		t.Fatal(err)
	}
	made, err := policy.New(inGo())
	if err != nil {
		t.Fatal(err)
	}
	var now atomic.Int64 // seconds since 1970
	now.Store(1_800_000_000)
	guardOf := func(set *policy.Set) *policy.Guard {
		t.Helper()
		store, err := memorystore.New(memorystore.Config{Now: func() time.Time { return time.Unix(now.Load(), 0) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		guard, err := policy.NewGuard(store, set, policy.GuardConfig{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return guard
	}
	one, other := guardOf(read.Set), guardOf(made)
	denied := 0
	for i := range 400 {
		in := policy.Input{
			Method: []string{"GET", "POST", "PUT"}[i%3],
			Host:   "example.com",
			Path:   []string{"/", "/healthz", "/search/books", "/search/films", "/export", "/upload"}[i%6],
			Peer:   netip.MustParseAddr([]string{"10.0.0.1", "192.0.2.1", "2001:db8::7"}[i%5%3]),
			Header: http.Header{
				"X-Real-Ip": {[]string{"192.0.2.7", "198.51.100.1"}[i%2]}, "X-Key": {fmt.Sprint("k", i%7)},
				"X-Beta": {"yes"},
				"X-Plan": {[]string{"pro", "free"}[i%4/2]}, "X-Cost": {fmt.Sprint(i % 9)},
			},
		}
		if got, want := made.Explain(&in), read.Set.Explain(&in); !sameExplanation(got, want) {
			t.Fatalf("request %d: explained as\n%+v\nin Go, and\n%+v\nin YAML", i, got, want)
		}
		var got, want policy.Verdict
		if err := errors.Join(one.Decide(context.Background(), &in, &want),
			other.Decide(context.Background(), &in, &got)); err != nil {
			t.Fatal(err)
		}
		if a, b := textOf(&got), textOf(&want); a != b {
			t.Fatalf("request %d: got\n%s\nin Go, and\n%s\nin YAML", i, a, b)
		}
		if !want.Decision.Allowed {
			denied++
		}
		now.Add(1)
	}
	if denied < 50 || denied > 350 {
		t.Errorf("%d of 400 requests were denied: they show little", denied)
	}
	if got, want := made.Spec().Headers, read.Set.Spec().Headers; !reflect.DeepEqual(got, want) {
		t.Errorf("headers: got %+v in Go, and %+v in YAML", got, want)
	}
}

// textOf is what a verdict says about a request.
func textOf(v *policy.Verdict) string {
	return fmt.Sprint(v.Tier, v.Route, v.Skipped, v.Cost, v.Decision.Allowed, v.Decision.RetryAfter, v.Decision.Banned,
		v.Decision.Key(), v.SettleHeader, v.SettlesBytes)
}

// sameExplanation compares what two sets make of a request, but for the addresses of rules.
func sameExplanation(a, b *policy.Explanation) bool {
	if len(a.Results) != len(b.Results) {
		return false
	}
	for i := range a.Results {
		x, y := a.Results[i], b.Results[i]
		if x.Key() != y.Key() || x.Cost != y.Cost || x.Shadow != y.Shadow || x.Rule.Name() != y.Rule.Name() ||
			!reflect.DeepEqual(x.Rule.Limits, y.Rule.Limits) {
			return false
		}
	}
	first, second := *a, *b
	first.Results, second.Results = nil, nil
	return reflect.DeepEqual(first, second)
}

// TestSameMistakes: a spec in Go has the mistakes that the same document has, but for their places.
func TestSameMistakes(t *testing.T) {
	_, fromYAML := config.Parse("stint.yaml", []byte("tiers:\n  - {name: pro, identity: usr, limits: 100/1m}\npolicies:\n  - {name: import}\n"))
	_, fromGo := policy.New(policy.Spec{
		Tiers:    []policy.Tier{{Name: "pro", Identity: []string{"usr"}, Limits: policy.Limits(stint.PerMinute(100))}},
		Policies: []policy.Policy{{Name: "import"}},
	})
	var mistakes *config.Error
	if !errors.As(fromYAML, &mistakes) || fromGo == nil {
		t.Fatalf("got %v, and %v in Go", fromYAML, fromGo)
	}
	for _, m := range mistakes.Mistakes {
		if want := m.Key + ": " + m.Message; !strings.Contains(fromGo.Error(), want) {
			t.Errorf("got %v in Go, without %s", fromGo, want)
		}
	}
}
