package changes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/changes"
	"github.com/stint-limiter/stint/internal/guardtest"
)

const before = `
tiers:
  - {name: enterprise, match: {claim: {plan: enterprise}}, identity: user, limits: 9000/1h}
  - {name: free, identity: ip, limits: [60/1m, 900/1h]}
policies:
  - {name: api, match: {path: /api/**}, limits: {enterprise: 500/1m, default: 50/1m}, budget: 1000/1h}
  - {name: login, match: {path: /login}, limits: 5/1m}
  - {name: trial, match: {path: /trial}, limits: 5/1m, shadow: true}
`

// TestSets: a change is said in words, and which rules may deny more since.
func TestSets(t *testing.T) {
	for _, test := range []struct{ old, new, want string }{
		{"limits: 5/1m}", "limits: 5/1m} # as ever", ""},
		{"500/1m", "50/1m", "api for enterprise from 500/1m to 50/1m: enterprise/api"},
		{"500/1m", "5000/1m", "api for enterprise from 500/1m to 5000/1m"},
		{"500/1m", "500/2m", "api for enterprise from 500/1m to 500/2m: enterprise/api"},
		{"5/1m}", "3/1m}", "login from 5/1m to 3/1m: enterprise/login free/login"},
		{"9000/1h", "900/1h", "tier enterprise from 9000/1h to 900/1h: enterprise/"},
		{"60/1m, 900", "60/1m, 800", "tier free from 60/1m, 900/1h to 60/1m, 800/1h: free/"},
		{"1000/1h", "100/1h", "budget of api from cost: 1000/1h to cost: 100/1h: enterprise/api free/api"},
		{", shadow: true", "", "trial from 5/1m (shadow) to 5/1m: enterprise/trial free/trial"},
		{", shadow: true", ", rollout: 20%", "trial from 5/1m (shadow) to 5/1m (for 20%): enterprise/trial free/trial"},
		{"{path: /login}", "{path: /**}", "policy login: match: enterprise/login free/login"},
		{"  - {name: login, match: {path: /login}, limits: 5/1m}\n", "",
			"login from 5/1m to no limit; policy login is gone"},
		{"policies:", "policies:\n  - {name: up, match: {path: /up}, skip: true}", "policy up is new"},
		{"tiers:", "bans: {after: 3, within: 1m, durations: [1h]}\ntiers:",
			"settings: bans: enterprise/ free/ enterprise/api free/api enterprise/login free/login"},
	} {
		text := strings.Replace(before, test.old, test.new, 1)
		if text == before {
			t.Fatalf("%q is not in the text", test.old)
		}
		was, is := guardtest.Parse(t, before), guardtest.Parse(t, text)
		var got []string
		for _, c := range changes.Sets(was, is) {
			line := c.Text
			for i, r := range c.Denies {
				line += fmt.Sprintf("%s %s/%s", map[bool]string{true: ":"}[i == 0], r.Tier, r.Policy)
			}
			got = append(got, line)
		}
		if got := strings.Join(got, "; "); got != test.want {
			t.Errorf("%q to %q:\ngot  %s\nwant %s", test.old, test.new, got, test.want)
		}
		if same := changes.Fingerprint(was) == changes.Fingerprint(is); same != (test.want == "") {
			t.Errorf("%q to %q: the same fingerprint: %v", test.old, test.new, same)
		}
	}
}
