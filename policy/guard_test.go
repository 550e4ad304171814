package policy_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/policy"
)

func get(path string) policy.Input {
	return policy.Input{Method: "GET", Host: "example.com", Path: path, Peer: client, Header: http.Header{}}
}

// admitted counts how many of n equal requests are allowed.
func (w *world) admitted(n int, in policy.Input) int {
	w.t.Helper()
	count := 0
	for range n {
		if w.judge(in).Decision.Allowed {
			count++
		}
	}
	return count
}

// TestEveryPolicyThatMatches applies, all or nothing.
func TestEveryPolicyThatMatches(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 10/1m}]
policies:
  - {name: search, match: {path: /search}, limits: 3/1m}
  - {name: site, identity: everyone, limits: 8/1m}
`)
	if got := w.admitted(5, get("/search")); got != 3 {
		t.Fatalf("search admits %d, want 3", got)
	}
	// Denials charged nothing: 7 of the tier's 10 and 5 of the site's 8 are left.
	if got := w.admitted(9, get("/other")); got != 5 {
		t.Errorf("others admit %d, want 5: the site's", got)
	}
	v := w.judge(get("/other"))
	if name := v.Decisive().Rule.Name(); name != "site" {
		t.Errorf("denied by %q, want the site", name)
	}
	stranger := get("/other")
	stranger.Peer = netip.MustParseAddr("198.51.100.1")
	if w.judge(stranger).Decision.Allowed {
		t.Error("the site's limit is not everyone's")
	}
}

func TestFirstThatSaysSo(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 1000/1m, budget: 100/1m}]
policies:
  - {name: always, limits: 1000/1m}
  - {name: export, match: {path: /files/export}, cost: 7}
  - {name: files, match: {path: /files/**}, cost: 2, limits: 1000/1m}
`)
	tests := []struct {
		path, route string
		cost        int64
		rules       string
	}{
		{"/files/export", "export", 7, "[anyone anyone always files]"},
		{"/files/x", "files", 2, "[anyone anyone always files]"},
		{"/x", "", 1, "[anyone anyone always]"},
	}
	for _, test := range tests {
		v := w.judge(get(test.path))
		var names []string
		for _, r := range v.Results {
			names = append(names, r.Rule.Name())
		}
		if v.Route != test.route || v.Cost != test.cost || fmt.Sprint(names) != test.rules {
			t.Errorf("%s: route %q, cost %d, rules %v; want %q, %d, %s", test.path, v.Route, v.Cost, names, test.route, test.cost, test.rules)
		}
	}
}

func TestTierLimitsInPolicies(t *testing.T) {
	w := newWorld(t, `
tiers:
  - {name: pro, match: {claim: {plan: pro}}, identity: user, limits: unlimited}
  - {name: free, identity: user, limits: unlimited}
  - {name: anonymous, identity: ip, limits: unlimited}
policies:
  - name: search
    limits: {pro: unlimited, free: 4/1m, default: 2/1m}
`)
	for _, test := range []struct {
		claims claims
		want   int
	}{{claims{"user": "1", "plan": "pro"}, 10}, {claims{"user": "1"}, 4}, {nil, 2}} {
		in := get("/")
		in.Claims = test.claims
		if got := w.admitted(10, in); got != test.want {
			t.Errorf("%v: admitted %d, want %d", test.claims, got, test.want)
		}
	}
}

// TestF25LimitChanged: a new limit counts from the next decision on, with the history kept.
func TestF25LimitChanged(t *testing.T) {
	text := `tiers: [{name: anyone, identity: ip, limits: 5/1m}]`
	w := newWorld(t, text)
	if got := w.admitted(9, get("/")); got != 5 {
		t.Fatalf("admitted %d, want 5", got)
	}
	for _, step := range []struct {
		limit string
		want  int
	}{{"8/1m", 3}, {"3/1m", 0}, {"10/1m", 2}} {
		conf, err := config.Parse("stint.yaml", []byte(edit(t, text, "5/1m", step.limit)))
		if err != nil {
			t.Fatal(err)
		}
		w.Swap(conf.Set)
		if got := w.admitted(9, get("/")); got != step.want {
			t.Errorf("%s: admitted %d more, want %d", step.limit, got, step.want)
		}
	}
}

// TestSwapNil: a set that could not be read changes nothing.
func TestSwapNil(t *testing.T) {
	w := newWorld(t, `tiers: [{name: anyone, identity: ip, limits: 1/1m}]`)
	w.Swap(nil)
	if got := w.admitted(3, get("/")); got != 1 {
		t.Errorf("admitted %d, want 1", got)
	}
}

func TestRequestID(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 2/1m}]
request_id: {header: Idempotency-Key}
`)
	in := get("/")
	in.Header = http.Header{"Idempotency-Key": {strings.Repeat("k", 300)}}
	if got := w.admitted(5, in); got != 5 {
		t.Errorf("one request, sent five times: admitted %d, want 5", got)
	}
	other := in
	other.Path = "/elsewhere"
	if got := w.admitted(5, other); got != 5 {
		t.Errorf("the same id for another request: admitted %d, want 5, of which one is charged", got)
	}
	if got := w.admitted(5, get("/")); got != 0 {
		t.Errorf("others: admitted %d, want none: two were charged", got)
	}
}

// TestRequestIDOfARoute is for that route alone.
func TestRequestIDOfARoute(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, scope: route, limits: 1/1m}]
policies: [{name: pay, match: {path: /pay}, request_id: {header: Idempotency-Key}}]
`)
	for path, want := range map[string]int{"/pay": 4, "/other": 1} {
		in := get(path)
		in.Header = http.Header{"Idempotency-Key": {"k"}}
		if got := w.admitted(4, in); got != want {
			t.Errorf("%s: admitted %d, want %d", path, got, want)
		}
	}
}

// TestBans: who keeps being denied is banned, but never everybody at once.
func TestBans(t *testing.T) {
	w := newWorld(t, `
tiers:
  - {name: trusted, identity: user, limits: 1/1m, bans: {after: 0}}
  - {name: anyone, identity: ip, limits: 5/1m}
policies:
  - {name: site, match: {path: /site}, identity: everyone, limits: 2/1m}
bans: {after: 3, within: 1m, durations: [10m]}
`)
	for range 10 {
		w.judge(get("/site"))
	}
	if v := w.judge(get("/")); !v.Decision.Allowed {
		t.Errorf("denied because of a limit that everyone shares: %+v", v.Decision)
	}
	for range 20 {
		w.judge(get("/"))
	}
	v := w.judge(get("/"))
	if !v.Decision.Banned || v.Decision.RetryAfter != 10*time.Minute {
		t.Errorf("not banned for 10m: %+v", v.Decision)
	}
	in := get("/")
	in.Claims = claims{"user": "1"}
	for range 20 {
		if w.judge(in).Decision.Banned {
			t.Fatal("the tier without bans bans")
		}
	}
}

func TestShadowAndRollout(t *testing.T) {
	const config = `
tiers: [{name: anyone, identity: user, limits: unlimited}, {name: nobody, identity: ip, limits: 0/1m}]
policies:
  - {name: new, limits: 2/1m, shadow: true}
`
	w := newWorld(t, config)
	in := get("/")
	in.Claims = claims{"user": "1"}
	n := 0
	for range 10 {
		v := w.judge(in)
		if !v.Decision.Allowed {
			t.Fatal("denied by a policy in shadow")
		}
		n += len(shadowed(v))
	}
	if n != 8 {
		t.Errorf("%d would have been denied, want 8", n)
	}

	enforcedFor := func(share string) map[string]bool {
		w := newWorld(t, edit(t, config, "shadow: true", "rollout: "+share))
		enforced := map[string]bool{}
		for i := range 2000 {
			in := get("/")
			in.Claims = claims{"user": fmt.Sprint(i)}
			if w.admitted(3, in) == 2 {
				enforced[fmt.Sprint(i)] = true
			}
		}
		return enforced
	}
	if near := enforcedFor("10%"); len(near) < 140 || len(near) > 260 {
		t.Errorf("enforced for %d of 2000, want about 200", len(near))
	}
	few, many := enforcedFor("5%"), enforcedFor("25%")
	if len(few) < 60 || len(few) > 140 || len(many) < 430 || len(many) > 570 {
		t.Errorf("enforced for %d and %d of 2000, want about 100 and 500", len(few), len(many))
	}
	for user := range few {
		if !many[user] {
			t.Errorf("user %s was in at 5%% and is out at 25%%", user)
		}
	}
	if n := len(enforcedFor("100%")); n != 2000 {
		t.Errorf("100%%: enforced for %d of 2000", n)
	}
}

// TestSharesInGo: 0 is a share like any other, and what is not a share is refused.
func TestSharesInGo(t *testing.T) {
	for _, c := range []struct {
		share    *float64
		enforced float64
		want     string // mistakes of the tier, the policy and the headers
	}{
		{nil, 1, ""},
		{new(0.0), 0, ""},
		{new(0.5), 0.5, ""},
		{new(1.0), 1, ""},
		{new(-0.5), 0, "-0.5; want a share from 0 to 1"},
		{new(50.0), 0, "50; want a share from 0 to 1"},
		{new(math.NaN()), 0, "NaN; want a share from 0 to 1"},
	} {
		set, err := policy.New(policy.Spec{
			Headers: policy.Headers{Jitter: c.share},
			Tiers: []policy.Tier{{Name: "all", Identity: []string{"ip"}, Limits: policy.Limits(stint.PerMinute(1)),
				Rollout: c.share}},
			Policies: []policy.Policy{{Name: "api", Limits: policy.Limits(stint.PerHour(1)), Rollout: c.share}},
		})
		if c.want != "" {
			for _, key := range []string{"tiers[0].rollout", "policies[0].rollout", "headers.retry_after_jitter"} {
				if err == nil || !strings.Contains(err.Error(), key+": "+c.want) {
					t.Errorf("%v: got %v, want %s: %s", *c.share, err, key, c.want)
				}
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range set.Rules() {
			if r.Enforced != c.enforced {
				t.Errorf("%s: enforced for %v, want %v", r.Name(), r.Enforced, c.enforced)
			}
		}
	}
}

// TestEnforceAll: what is in shadow or rolled out to few has consequences for everybody, whether a
// tier or a policy says so, and nothing is left in shadow.
func TestEnforceAll(t *testing.T) {
	const (
		tierOnly = "tiers: [{name: anyone, identity: ip, limits: 2/1m, shadow: true}]"
		policies = "tiers: [{name: anyone, identity: ip, limits: unlimited}]\npolicies: "
	)
	for _, test := range []struct {
		name, config string
		alone, all   int // admitted of ten, as configured and if all is enforced
	}{
		{"tier in shadow", tierOnly, 10, 2},
		{"policy in shadow", policies + "[{name: new, limits: 3/1m, shadow: true}]", 10, 3},
		{"policy rolled out to nobody", policies + "[{name: new, limits: 3/1m, rollout: 0%}]", 10, 3},
		{"policy in force", policies + "[{name: new, limits: 3/1m}]", 3, 3},
		{"the least of all", policies + "[{name: new, limits: 4/1m, shadow: true}, {name: old, limits: 6/1m}]", 6, 4},
		{"nothing limited", policies + "[]", 10, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			alone := newWorld(t, test.config)
			if got := alone.admitted(10, get("/")); got != test.alone {
				t.Errorf("as configured: admitted %d of 10, want %d", got, test.alone)
			}
			all := newWorld(t, test.config)
			guard, err := policy.NewGuard(all.store, all.Set(), policy.GuardConfig{Logger: discard, EnforceAll: true})
			if err != nil {
				t.Fatal(err)
			}
			all.Guard = guard
			got := 0
			for range 10 {
				v := all.judge(get("/"))
				if n := len(shadowed(v)); n > 0 {
					t.Errorf("%d rules are still in shadow", n)
				}
				if v.Decision.Allowed {
					got++
				}
			}
			if got != test.all {
				t.Errorf("all enforced: admitted %d of 10, want %d", got, test.all)
			}
		})
	}
}

// broken is a store that fails.
type broken struct{ stint.Store }

func (broken) Take(_ context.Context, r stint.Request) (stint.Decision, error) {
	return stint.Decision{}, &stint.StoreError{Op: "take", Kind: stint.KindTimeout,
		Err: errors.New(r.Failure.Mode.String())}
}

func TestFailurePerPolicy(t *testing.T) {
	conf, err := config.Parse("stint.yaml", []byte(`
failure: {mode: allow, budget: 20ms}
tiers:
  - {name: paying, identity: user, limits: 10/1m, failure: {mode: local}}
  - {name: anyone, identity: ip, limits: 10/1m}
policies:
  - {name: login, match: {path: /login}, failure: {mode: deny}}
  - {name: any, match: {path: /**}, failure: {mode: error, budget: 5ms}}
`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		in     policy.Input
		mode   stint.FailureMode
		budget time.Duration
	}{
		{get("/login"), stint.FailDeny, 20 * time.Millisecond},
		{get("/x"), stint.FailError, 5 * time.Millisecond},
	}
	for _, test := range tests {
		if got := conf.Set.Explain(&test.in).Failure; got.Mode != test.mode || got.Budget != test.budget {
			t.Errorf("%s: got %+v", test.in.Path, got)
		}
	}
	guard, err := policy.NewGuard(broken{}, conf.Set, policy.GuardConfig{Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	in := get("/x")
	var v policy.Verdict
	if err := guard.Decide(context.Background(), &in, &v); errkind.Of(err) != stint.KindTimeout {
		t.Errorf("got %v, want the store's error", err)
	}
}

// TestF34Names: whatever requests say, verdicts have the configuration's names, and logs are single
// lines without secrets.
func TestF34Names(t *testing.T) {
	var logged strings.Builder
	w := newWorld(t, `
identities: {apikey: {header: X-API-Key}}
tiers:
  - {name: keyed, identity: apikey, limits: 0/1m}
  - {name: user, identity: user, limits: 0/1m}
  - {name: rest, identity: ip, limits: 0/1m}
policies:
  - {name: things, match: {path: "/things/{id}"}, per: [id, method], limits: 10/1m}
`)
	g := w.withLog(&logged)
	names := map[string]bool{}
	for i := range 3000 {
		evil := fmt.Sprintf("sk_live_%d\"\n\r\x00level=ERROR msg=\x1b[31m{}", i)
		in := policy.Input{Method: evil, Host: evil, Path: "/things/" + evil, Peer: client}
		switch i % 3 {
		case 0:
			in.Header = http.Header{"X-Api-Key": {evil}}
		case 1:
			in.Claims = claims{"user": evil}
		}
		var v policy.Verdict
		if err := g.Decide(context.Background(), &in, &v); err != nil {
			t.Fatal(err)
		}
		names[v.Tier+"/"+v.Route+"/"+v.Decisive().Rule.Name()] = true
	}
	if len(names) != 3 {
		t.Errorf("%d different names: %v", len(names), names)
	}
	lines := slices.Collect(strings.Lines(logged.String()))
	if len(lines) == 0 || len(lines) > 100 {
		t.Errorf("%d lines for 3000 denials", len(lines))
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "time=") || strings.Contains(line, "sk_live_") ||
			strings.ContainsAny(line, "\r\x00\x1b") {
			t.Errorf("logged %q", line)
		}
	}
}
