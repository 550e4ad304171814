package setinfo_test

import (
	"testing"

	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/setinfo"
)

func TestFailureOf(t *testing.T) {
	set := guardtest.Parse(t, `failure: {mode: deny}
tiers:
  - {name: pro, identity: user, limits: 10/1m, scope: none, failure: {mode: allow}}
  - {name: all, identity: ip, limits: 10/1m, scope: route}
policies:
  - {name: login, limits: 1/1s, failure: {mode: error}}
  - {name: search, limits: 1/1s}
`)
	for _, test := range []struct{ policy, tier, want string }{
		{"login", "", "error"}, {"login", "pro", "error"},
		{"search", "", "deny"}, {"search", "pro", "allow"}, {"search", "all", "deny"},
		{"", "pro", "allow"}, {"", "all", "deny"}, {"", "", "deny"},
	} {
		if got := setinfo.FailureOf(set, test.policy, test.tier).Mode.String(); got != test.want {
			t.Errorf("policy %q, tier %q: got %s, want %s", test.policy, test.tier, got, test.want)
		}
	}
	if got := [...]string{setinfo.ScopeOf(set, "pro"), setinfo.ScopeOf(set, "all"),
		setinfo.ScopeOf(set, "")}; got != [...]string{"", "other", "global"} {
		t.Errorf("scopes: got %q", got)
	}
}
