package policy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/policy"
)

// TestSpellingsOfCredentials: a credential that applications read as the same has one count,
// however it is written, and others have their own.
func TestSpellingsOfCredentials(t *testing.T) {
	w := newWorld(t, `
identities:
  token: {header: Authorization}
  key: {header: X-API-Key}
  session: {cookie: session}
tiers:
  - {name: tokens, identity: [token, key, session], limits: 1000/1m}
  - {name: all, identity: ip, limits: 1000/1m}
`)
	subject := func(field, value string) string {
		return w.judge(policy.Input{Method: "GET", Path: "/", Peer: client, Header: http.Header{field: {value}}}).
			Subject()
	}
	for _, test := range []struct {
		field, value string
		same, other  []string
	}{
		// RFC 9110, section 11.4: the scheme in any case, then one or more spaces.
		{"Authorization", "Bearer tok",
			[]string{"bearer tok", "BEARER tok", "bEARER tok", "Bearer  tok", "bearer     tok", "Bearer \ttok",
				"Bearer tok "},
			[]string{"Bearer TOK", "Bearer tok2", "Basic tok", "Bearertok", "Bearer", "tok", "Bearer t ok"}},
		{"Authorization", "Basic dTpw", []string{"basic dTpw", "BASIC  dTpw"}, []string{"Basic dTpW", "Bearer dTpw"}},
		{"Authorization", "Basic dTpwYXM=", // as Node and others decode it
			[]string{"Basic dTpwYXM", "Basic dTpwYXN=", "basic dTp!wYXM=", "BASIC dTpwYXM=="},
			[]string{"Basic dTpwYXQ="}},
		{"Authorization", "Basic Pz8_", []string{"Basic Pz8/", "Basic Pz8/="}, []string{"Basic Pz8+"}},
		{"Authorization", "Digest username=a", []string{"digest  username=a"}, []string{"digest username=A"}},
		// A key in a field of its own has no scheme.
		{"X-Api-Key", "Bearer tok", nil, []string{"bearer tok", "Bearer  tok", "tok"}},
		// Express (cookie), Hono, Next.js, Rack, PHP and ASP.NET decode values once. Koa, Django,
		// Werkzeug and Go do not.
		{"Cookie", "session=abc",
			[]string{"session=%61bc", "session=%61%62%63", `session="abc"`, "a=1; session=a%62c", "session=%61bc; a=1"},
			[]string{"session=ABC", "session=%2561bc", "session=abc%", "session=%6", "session=ab%zz", "session=abcd"}},
		{"Cookie", "session=a%2Fb", []string{"session=a%2fb", "session=a/b", "session=%61%2Fb"},
			[]string{"session=a%252Fb"}},
		{"Cookie", "session=abc", []string{" session = abc ", "session=; session=abc",
			strings.Repeat("a=b;", 2000) + "session=abc"}, []string{"sessions=abc", "Session=abc"}},
		{"Cookie", `session="a\"bc"`, []string{`session="\141\042bc"`, `session="\a\"\b\143"`, `session=a"bc`},
			[]string{`session="a\\"bc"`}}, // Django and Werkzeug
		// Rack and PHP read a plus sign as a space.
		{"Cookie", "session=a+b", []string{"session=a%20b", "session=a%2Bb", "session=a%2bb"}, []string{"session=ab"}},
		{"Cookie", "session=%zz", []string{"session=%25zz", "session=%z%7a"}, []string{"session=%ZZ", "session=zz"}},
	} {
		want := subject(test.field, test.value)
		for _, value := range test.same {
			if got := subject(test.field, value); got != want {
				t.Errorf(
					"%s: %q counts as %s, and %q as %s; want one count",
					test.field,
					test.value,
					want,
					value,
					got,
				)
			}
		}
		for _, value := range test.other {
			if got := subject(test.field, value); got == want {
				t.Errorf("%s: %q and %q have one count, %s; want two", test.field, test.value, value, got)
			}
		}
	}
}
