package policy_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/overrides"
	"github.com/stint-limiter/stint/policy"
)

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
	err := new(world).over(t, broken, w.Set()).Decide(t.Context(), &in, new(policy.Verdict))
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
	w := worldOver(t, attentive{guardtest.Memory(t)}, `
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
	for _, want := range []string{"the store is nil", "the set is missing; make one with policy.New",
		"Overrides is a nil *overrides.Table; leave the field out", "Observer is a nil *policy_test.witness"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	guard := newWorld(t, "tiers: [{name: all, identity: everyone, limits: 1/1h}]").Guard
	before := guard.Set()
	for _, set := range []*policy.Set{nil, {}} {
		if err := guard.Replace(set); !errors.As(err, new(*stint.InvalidError)) || guard.Set() != before {
			t.Errorf("got %v for a set that New has not made; want an InvalidError, and the set before", err)
		}
	}
}
