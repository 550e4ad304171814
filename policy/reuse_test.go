package policy_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// reuseConfig has tiers by user and by address, rules in shadow, one for everyone, one for whoever
// it is, and an exemption.
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

// TestVerdictIsUsedAgain holds a verdict that is used for all requests against one that is new for
// each.
func TestVerdictIsUsedAgain(t *testing.T) {
	w := newWorld(t, reuseConfig)
	used := new(policy.Verdict)
	for _, user := range []string{"7", "7", "8", "", "", "7", "77"} {
		for _, plan := range []string{"", "", "tried", "tried"} {
			for _, path := range []string{"/", "/search", "/site", "/own", "/static/x", "/"} {
				in := get(path)
				in.Claims = claims{"user": user, "plan": plan}
				fresh := new(policy.Verdict)
				for _, v := range []*policy.Verdict{used, fresh} {
					if err := w.Decide(context.Background(), &in, v); err != nil {
						t.Fatal(err)
					}
				}
				if got, want := whom(used), whom(fresh); got != want {
					t.Errorf("user %q, plan %q, %s: got %s, want %s", user, plan, path, got, want)
				}
			}
		}
	}
}

// whom tells whom a verdict counts a request for.
func whom(v *policy.Verdict) string {
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

// TestAllocations is what judging costs beyond what the store does: the name of who is asking,
// unless the last one is asking again.
func TestAllocations(t *testing.T) {
	w := newWorld(t, reuseConfig)
	tests := []struct {
		name  string
		path  string
		users []string
		want  float64
	}{
		{"the same", "/", []string{"7", "7"}, 0},
		{"in turn", "/", []string{"7", "8"}, 1},
		{"exempt", "/static/x", []string{"7", "8"}, 0},
		{"the same beside everyone", "/site", []string{"7", "7"}, 0},
		{"the same in shadow", "/search", []string{"7", "7"}, 0},
		{"the same in a tier and a policy", "/own", []string{"7", "8"}, 1},
	}
	for _, test := range tests {
		var v policy.Verdict
		var r stint.Request
		var ins []policy.Input
		for _, user := range test.users {
			in := get(test.path)
			in.Claims = claims{"user": user}
			ins = append(ins, in)
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
