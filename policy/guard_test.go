package policy_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/overrides"
	"github.com/stint-limiter/stint/policy"
)

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
	if name := w.judge(get("/other")).Decisive().Rule.Name(); name != "site" {
		t.Errorf("denied by %q, want the site", name)
	}
	stranger := get("/other")
	stranger.Peer = netip.MustParseAddr("198.51.100.1")
	if w.judge(stranger).Decision.Allowed {
		t.Error("the site's limit is not everyone's")
	}
}

// TestFirstThatSaysSo: the cost and the route are those of the first policy that has one.
func TestFirstThatSaysSo(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 1000/1m, budget: 100/1m}]
policies:
  - {name: always, limits: 1000/1m}
  - {name: export, match: {path: /files/export}, cost: 7}
  - {name: files, match: {path: /files/**}, cost: 2, limits: 1000/1m}
`)
	for _, test := range []struct {
		path, route string
		cost        int64
		rules       string
	}{
		{"/files/export", "export", 7, "[anyone anyone always files]"},
		{"/files/x", "files", 2, "[anyone anyone always files]"},
		{"/x", "", 1, "[anyone anyone always]"},
	} {
		v := w.judge(get(test.path))
		var names []string
		for _, r := range v.Results {
			names = append(names, r.Rule.Name())
		}
		if v.Route != test.route || v.Cost != test.cost || fmt.Sprint(names) != test.rules {
			t.Errorf("%+v: got %q, %d, %v", test, v.Route, v.Cost, names)
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
		if got := w.admitted(10, getAs("/", test.claims)); got != test.want {
			t.Errorf("%v: admitted %d, want %d", test.claims, got, test.want)
		}
	}
}

// TestRequestID: an id is that of a caller, a request and a route. The port of the host does not
// matter.
func TestRequestID(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 100/1m}]
request_id: {header: Idempotency-Key}
policies: [{name: pay, match: {path: /pay}, request_id: {header: X-Once}}]
`)
	long := strings.Repeat("k", 300)
	for _, test := range []struct {
		path, host, header, id string
		repeat                 bool
	}{
		{"/", "example.com", "Idempotency-Key", long, false},
		{"/", "example.com", "Idempotency-Key", long, true},
		{"/", "example.com", "Idempotency-Key", long + "k", false},
		{"/elsewhere", "example.com", "Idempotency-Key", long, false},
		{"/", "example.com:443", "Idempotency-Key", long, true}, {"/", "example.com:8443", "Idempotency-Key", long, true},
		{"/", "EXAMPLE.com", "Idempotency-Key", long, true}, {"/", "example.com.:80", "Idempotency-Key", long, true},
		{"/", "www.example.com", "Idempotency-Key", long, false},
		{"/", "[2001:db8::1]", "Idempotency-Key", long, false}, {"/", "[2001:db8::1]:80", "Idempotency-Key", long, true},
		{"/", "[2001:db8::2]:80", "Idempotency-Key", long, false},
		{"/pay", "example.com", "Idempotency-Key", "a", false}, {"/pay", "example.com", "Idempotency-Key", "a", false},
		{"/pay", "example.com", "X-Once", "a", false}, {"/pay", "example.com", "X-Once", "a", true},
		{"/", "example.com", "X-Once", "a", false}, {"/", "example.com", "X-Once", "a", false},
	} {
		in := getWith(test.path, http.Header{http.CanonicalHeaderKey(test.header): {test.id}})
		in.Host = test.host
		if v := w.judge(in); v.Decision.Repeat != test.repeat {
			t.Errorf("%+v: repeat %v", test, v.Decision.Repeat)
		}
	}
}

// TestF10Client: only what a trusted proxy reports replaces the peer's address. F28: a network of
// IPv6 is one subject, and a mapped address is that of IPv4.
func TestF10Client(t *testing.T) {
	w := newWorld(t, `
client_ip: {trusted_proxies: [10.0.0.0/8]}
tiers: [{name: anyone, identity: ip, limits: 10/1m}]
`)
	for _, c := range []struct{ peer, forwarded, want string }{
		{"203.0.113.9", "192.0.2.1", "ip:203.0.113.9:global"},
		{"10.0.0.1", "192.0.2.1, 198.51.100.7, 10.0.0.2", "ip:198.51.100.7:global"},
		{"::ffff:203.0.113.9", "192.0.2.1", "ip:203.0.113.9:global"},
		{"2001:db8:1:2:ffff:ffff:ffff:ffff%eth0", "192.0.2.1", "ip:2001:db8:1:2::/64:global"},
	} {
		in := getWith("/", http.Header{"X-Forwarded-For": {c.forwarded}, "X-Real-Ip": {"192.0.2.1"}, "Forwarded": {"for=192.0.2.1"}})
		in.Peer = netip.MustParseAddr(c.peer)
		if got := w.judge(in).Decision.Key(); got != c.want {
			t.Errorf("%s with %s: counted as %s, want %s", c.peer, c.forwarded, got, c.want)
		}
	}
}

// TestBans: a subject that keeps being denied is banned, except for limits and subjects that are
// shared.
func TestBans(t *testing.T) {
	w := newWorld(t, `
tiers:
  - {name: trusted, identity: user, limits: 1/1m, bans: {after: 0}}
  - {name: anyone, identity: ip, limits: 5/1m}
policies:
  - {name: site, match: {path: /site}, identity: everyone, limits: 2/1m}
bans: {after: 3, within: 1m, durations: [10m]}
`)
	w.Swap(nil) // changes nothing
	w.admitted(10, get("/site"))
	if v := w.judge(get("/")); !v.Decision.Allowed {
		t.Errorf("denied because of a limit that everyone shares: %+v", v.Decision)
	}
	w.admitted(20, get("/"))
	if d := w.judge(get("/")).Decision; !d.Banned || d.RetryAfter != 10*time.Minute {
		t.Errorf("not banned for 10m: %+v", d)
	}
	unknown := get("/")
	unknown.Peer = netip.Addr{}
	for name, in := range map[string]policy.Input{"tier without bans": getAs("/", claims{"user": "1"}), "unknown": unknown} {
		if w.admitted(20, in); w.judge(in).Decision.Banned {
			t.Errorf("%s: banned", name)
		}
	}
}

// TestRollout: a rule is enforced for a share of the subjects, and a larger share has them all. Time
// stands still in the bubble: a rule in shadow is given up when the store is slow.
func TestRollout(t *testing.T) { synctest.Test(t, rollout) }

func rollout(t *testing.T) {
	enforcedFor := func(share string) map[int]bool {
		w := newWorld(t, `
tiers: [{name: anyone, identity: user, limits: unlimited}, {name: nobody, identity: ip, limits: 0/1m}]
policies: [{name: new, limits: 1/1m, rollout: `+share+`}]`)
		enforced := map[int]bool{}
		for i := range 2000 {
			in := getAs("/", claims{"user": fmt.Sprint(i)})
			w.judge(in)
			v := w.judge(in)
			if enforced[i] = !v.Decision.Allowed; enforced[i] == (len(shadowed(v)) == 1) {
				t.Fatalf("user %d is enforced %v, and shadowed %v", i, enforced[i], shadowed(v))
			}
			if !enforced[i] {
				delete(enforced, i)
			}
		}
		return enforced
	}
	none, few, many, all := enforcedFor("0%"), enforcedFor("5%"), enforcedFor("25%"), enforcedFor("100%")
	if len(none) != 0 || len(few) < 60 || len(few) > 140 || len(many) < 430 || len(many) > 570 || len(all) != 2000 {
		t.Errorf("enforced for %d, %d, %d and %d of 2000; want about 0, 100, 500 and 2000", len(none), len(few), len(many), len(all))
	}
	for user := range few {
		if !many[user] {
			t.Errorf("user %d was in at 5%% and is out at 25%%", user)
		}
	}
}

// TestShares: 0 is a share like any other, and other numbers than shares are refused.
func TestShares(t *testing.T) {
	for _, share := range []float64{0, 0.5, 1, -0.5, 50, math.NaN()} {
		set, err := policy.New(policy.Spec{
			Headers: policy.Headers{Jitter: &share},
			Tiers: []policy.Tier{{Name: "all", Identity: []string{"ip"}, Limits: policy.Limits(stint.PerMinute(1)),
				Rollout: &share}},
			Policies: []policy.Policy{{Name: "api", Limits: policy.Limits(stint.PerHour(1)), Rollout: &share}},
		})
		if share >= 0 && share <= 1 {
			if err != nil || set.Rules()[0].Enforced != share || set.Rules()[1].Enforced != share {
				t.Errorf("%v: got %v, %v", share, set.Rules(), err)
			}
			continue
		}
		for _, key := range []string{"tiers[0].rollout", "policies[0].rollout", "headers.retry_after_jitter"} {
			if want := fmt.Sprintf("%s: %v; want a share from 0 to 1", key, share); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: got %v, want %s", share, err, want)
			}
		}
	}
}

// TestEnforceAll: rules in shadow or in rollout are enforced for all, and nothing is left in shadow.
func TestEnforceAll(t *testing.T) {
	const policies = "tiers: [{name: anyone, identity: ip, limits: unlimited}]\npolicies: "
	for config, want := range map[string][2]int{ // admitted of ten, as configured and if all is enforced
		"tiers: [{name: anyone, identity: ip, limits: 2/1m, shadow: true}]":               {10, 2},
		policies + "[{name: new, limits: 3/1m, shadow: true}]":                            {10, 3},
		policies + "[{name: new, limits: 3/1m, rollout: 0%}]":                             {10, 3},
		policies + "[{name: new, limits: 3/1m}]":                                          {3, 3},
		policies + "[{name: new, limits: 4/1m, shadow: true}, {name: old, limits: 6/1m}]": {6, 4},
		policies + "[]": {10, 10},
	} {
		alone, all := newWorld(t, config), newWorld(t, config)
		var err error
		if all.Guard, err = policy.NewGuard(all.store, all.Set(), policy.GuardConfig{Logger: discard, EnforceAll: true}); err != nil {
			t.Fatal(err)
		}
		if got := [2]int{alone.admitted(10, get("/")), all.admitted(10, get("/"))}; got != want || shadowed(all.judge(get("/"))) != nil {
			t.Errorf("%s: admitted %v of 10, want %v", config, got, want)
		}
	}
}

func TestFailurePerPolicy(t *testing.T) {
	w := newWorld(t, `
failure: {mode: allow, budget: 20ms}
tiers:
  - {name: paying, identity: user, limits: 10/1m, failure: {mode: local}}
  - {name: anyone, identity: ip, limits: 10/1m}
policies:
  - {name: login, match: {path: /login}, failure: {mode: deny}}
  - {name: any, match: {path: /x/**}, failure: {mode: error, budget: 5ms}}
`)
	for path, want := range map[string]stint.FailurePolicy{
		"/login": {Mode: stint.FailDeny, Budget: 20 * time.Millisecond},
		"/x/y":   {Mode: stint.FailError, Budget: 5 * time.Millisecond},
		"/":      {Mode: stint.FailAllow, Budget: 20 * time.Millisecond},
	} {
		in := get(path)
		if got := w.Set().Explain(&in, nil).Failure; got.Mode != want.Mode || got.Budget != want.Budget {
			t.Errorf("%s: got %+v", path, got)
		}
	}
	paying := getAs("/", claims{"user": "1"})
	if got := w.Set().Explain(&paying, nil).Failure.Mode; got != stint.FailLocal {
		t.Errorf("paying: got %v", got)
	}
	in := get("/x/y")
	err := new(world).over(t, broken{}, w.Set()).Decide(t.Context(), &in, new(policy.Verdict))
	if errkind.Of(err) != stint.KindTimeout {
		t.Errorf("got %v, want the store's error", err)
	}
}

// reuseConfig has tiers by user and by address, rules in shadow, one for everyone, one for several
// identities, and an exemption.
const reuseConfig = `
identities: {session: {cookie: sid}}
tiers:
  - {name: tried, match: {claim: {plan: tried}}, identity: user, limits: 1000000/1m, shadow: true}
  - {name: users, identity: user, limits: 1000000/1m}
  - {name: others, identity: ip, limits: 1000000/1m}
policies:
  - {name: static, match: {path: /static/**}, skip: true}
  - {name: search, match: {path: /search}, limits: 1000000/1m, shadow: true}
  - {name: site, match: {path: /site}, identity: everyone, limits: 1000000/1m}
  - {name: own, match: {path: /own}, identity: [session, user, ip], limits: 1000000/1m}
`

// TestVerdictIsUsedAgain compares a verdict that is used for all requests with a new one for each.
func TestVerdictIsUsedAgain(t *testing.T) {
	counted := func(v *policy.Verdict) string {
		list := []string{v.Tier, v.Route, v.Skipped}
		for _, c := range v.Decision.Charge.Claims() {
			list = append(list, c.Key())
		}
		for _, r := range v.Results {
			if r.Shadow {
				list = append(list, r.Rule.Name(), r.Subject)
			}
		}
		return fmt.Sprintf("%q", list)
	}
	w := newWorld(t, reuseConfig)
	used := new(policy.Verdict)
	for _, user := range []string{"7", "7", "8", "", "", "7", "77"} {
		for _, plan := range []string{"", "", "tried", "tried"} {
			for _, path := range []string{"/", "/search", "/site", "/own", "/static/x", "/"} {
				in := getAs(path, claims{"user": user, "plan": plan})
				if err := w.Decide(context.Background(), &in, used); err != nil {
					t.Fatal(err)
				}
				if got, want := counted(used), counted(w.judge(in)); got != want {
					t.Errorf("user %q, plan %q, %s: got %s, want %s", user, plan, path, got, want)
				}
			}
		}
	}
}

// TestAllocations: judging allocates the subject, unless the last one asks again.
func TestAllocations(t *testing.T) {
	w := newWorld(t, reuseConfig)
	for _, test := range []struct {
		name, path string
		users      []string
		want       float64
	}{
		{"the same", "/", []string{"7", "7"}, 0},
		{"in turn", "/", []string{"7", "8"}, 1},
		{"exempt", "/static/x", []string{"7", "8"}, 0},
		{"the same beside everyone", "/site", []string{"7", "7"}, 0},
		{"the same in shadow", "/search", []string{"7", "7"}, 0},
		{"the same in a tier and a policy", "/own", []string{"7", "8"}, 1},
	} {
		var v policy.Verdict
		var r stint.Request
		var ins []policy.Input
		for _, user := range test.users {
			ins = append(ins, getAs(test.path, claims{"user": user}))
		}
		got := testing.AllocsPerRun(100, func() {
			for i := range ins {
				if err := w.Ask(&ins[i], &v, &r); err != nil {
					t.Fatal(err)
				}
			}
		}) / float64(len(ins))
		if got != test.want {
			t.Errorf("%s: got %v allocations, want %v", test.name, got, test.want)
		}
	}
}

// hangUp is the content of a request whose client disconnects instead of sending it.
type hangUp context.CancelFunc

func (h hangUp) Body(int64) ([]byte, int64) { return nil, 0 }

func (h hangUp) Digest() string {
	h()
	return ""
}

// attentive is a store that decides nothing for canceled requests.
type attentive struct{ stint.Store }

func (a attentive) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if err := ctx.Err(); err != nil {
		return stint.Decision{}, err
	}
	return a.Store.Take(ctx, r)
}

// TestContentThatDoesNotArrive: a client that disconnects while its body is awaited is charged.
func TestContentThatDoesNotArrive(t *testing.T) {
	w := worldOver(t, attentive{memory(t, nil)}, `
tiers: [{name: all, identity: ip, limits: 1/1h}]
policies: [{name: click, match: {path: /}, request_id: {derive: 2s}}]
`)
	for i, want := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		var v policy.Verdict
		err := w.Decide(ctx, &policy.Input{Method: "POST", Path: "/", Content: hangUp(cancel)}, &v)
		if err != nil || v.Decision.Allowed != want {
			t.Errorf("%d: got %t and %v, want %t", i, v.Decision.Allowed, err, want)
		}
	}
}

// TestNewGuardMistakes: what would make a guard panic later is refused, all of it together.
func TestNewGuardMistakes(t *testing.T) {
	_, err := policy.NewGuard(nil, &policy.Set{}, policy.GuardConfig{
		Overrides: (*overrides.Table)(nil), Observer: (*witness)(nil)})
	if _, ok := errors.AsType[*stint.InvalidError](err); !ok {
		t.Fatalf("got %v, want an InvalidError", err)
	}
	for _, want := range []string{"the store is nil", "the set is missing; want one such as policy.New returns",
		"Overrides is a nil *overrides.Table; leave the field out", "Observer is a nil *policy_test.witness"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	guard := newWorld(t, "tiers: [{name: all, identity: everyone, limits: 1/1h}]").Guard
	before := guard.Set()
	for _, set := range []*policy.Set{nil, {}} {
		if guard.Swap(set); guard.Set() != before {
			t.Error("a set that New has not made is in force")
		}
	}
}
