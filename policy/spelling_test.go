package policy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// TestSpellings: no spelling of a request gets around its limit, nor does it exempt it.
func TestSpellings(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 1000/1m}]
policies:
  - {name: assets, match: {path: /static/**}, skip: true}
  - {name: styles, match: {path: "/**/*.css"}, skip: true}
  - {name: login, match: {method: POST, path: /login}, limits: 0/1m}
  - {name: token, match: {path: /Token}, limits: 0/1m}
  - {name: user, match: {path: "/users/{id}/login"}, limits: 0/1m}
  - {name: export, match: {path: "/exports/*.csv"}, limits: 0/1m}
`)
	check := func(method, target string, header http.Header, denied bool) {
		t.Helper()
		if v := w.judge(request(t, method, target, header)); v.Decision.Allowed == denied {
			t.Errorf("%s %s %v: allowed %v", method, target, header, !denied)
		}
	}
	for _, target := range []string{
		"/login", "//x/login", "//x:1/login", "//u@x/login", "///x//login/", "/login#x", "/LOGIN", "/TOKEN", "/token.x",
		`/x\..\login`, `/..\login`, `/\x/login`, `/%5Cx/login`, `/a%5Cb\..\login`, `/static/\..\..\login`,
		"/static/..%2Flogin", "/a%2Fb/../login", "/x/..;/login;y", "/static/%252e%252e/login",
		// To Django's re_path, "$" fits before a newline.
		"/login%0a", "/login/%0A", "//x/login%0a#x", "//" + strings.Repeat("x", 9000) + "/login%0a",
		"/login%3Fx", "/static/..%2Flogin%3fx/y", "//x/Login#", // to proxies that pass on a decoded path
		// To Rails, which takes it for a format.
		"/login.a7", "/login.", "/Login.JSON", "/login.css", "//x/login.a7;y", "/exports/a.csv.json",
		"/%256cogin", "/%25256cogin", "/%25252525256cogin", // to Astro, which decodes until nothing changes
		"/index.php/login", "/static/..%2findex.php/login", "/x/index.php/login", "/index.PHP/login",
		"/log%09in", // to applications that decode and then parse
		"/login%00.css", "/login%20", "/login%C2%A0", "/login%A0", "/login%E2%80%83", "/login%EF%BB%BF",
		"/to%E2%84%AAen", // the Kelvin sign
		// One step changes what another would have to leave alone.
		"/users/1%23/login%3Fx", "/users/1%23/login%00x", "/users/%01/lo%09gin", "/users/;/login;x",
		strings.Repeat("//x", 40), // too many readings
	} {
		check("POST", target, nil, true)
	}
	for _, target := range []string{
		"/loginx", "/login.a.b", "/.login", "/login/x.css", "/site.css", "/exports/a", "/100%25", "/%252561", "/login%0ax",
		"/x%3F/login", "//a/b", "/https://example.com/login", "/files/a%20b..c%2Fd;v=1", "/login%2F..%2Fx", "/static/login",
	} {
		check("POST", target, nil, false)
	}
	for _, test := range []struct {
		method, target, field string
		values                []string
		denied                bool
	}{
		{"post", "/login", "", nil, true}, {"pOsT", "/login", "", nil, true},
		{"GET", "/login", "X-Http-Method-Override", []string{"POST"}, true},
		{"GET", "/login", "X-Http-Method", []string{" post "}, true},
		{"GET", "/login", "X-Method-Override", []string{"", "PUT, POST"}, true},
		{"POST", "/login", "X-Http-Method-Override", []string{"GET"}, true},
		{"GET", `/x\..\login`, "X-Http-Method-Override", []string{"POST"}, true},
		{"GET", "/login", "", nil, false}, {"patch", "/login", "", nil, false},
		{"GET", "/login", "X-Http-Method-Override", []string{"PATCH"}, false},
	} {
		check(test.method, test.target, http.Header{test.field: test.values}, test.denied)
	}
}

// TestTierOfEveryReading: each reading of a request selects its tier, and all of them are enforced.
func TestTierOfEveryReading(t *testing.T) {
	const config = `
tiers:
  - {name: bulk, match: {path: /bulk/**}, identity: ip, limits: [1000/1m, 20/1h]}
  - {name: anyone, identity: ip, limits: [3/1m, 50/1h]}
policies: [{name: things, match: {path: /bulk/**}, limits: {bulk: 9/1m}}]
`
	for target, want := range map[string]int{
		"/bulk/x":          9, // the policy's
		"/x":               3,
		"/bulk/../x":       3,
		"/bulk/..%2Fx":     3,
		`/bulk/\..\..\x`:   3,
		"/bulk#/../x":      3,
		"/BULK/x":          3,
		"//bulk/x":         3, // /x for those who take the first part for a host
		"/bulk/x;v=1":      9,
		"/bulk/a%2Fb":      9,
		"/bulk/;x/..;/../": 3,
	} {
		w := newWorld(t, config)
		if got := w.admitted(60, request(t, "GET", target, nil)); got != want {
			t.Errorf("%s: admitted %d, want %d", target, got, want)
		}
	}
	// Of limits that share a count the strictest is left, whichever tier it is of.
	w := newWorld(t, config)
	v := w.judge(request(t, "GET", "/bulk/../x", nil))
	if r := v.Decisive(); r == nil || r.Rule.Tier != "anyone" || r.Decisive().Limit.Max != 3 ||
		len(v.Decision.Usages()) != 3 {
		t.Errorf("decisive is %+v, with %d usages", r, len(v.Decision.Usages()))
	}
}

// TestBurstOfEveryReading: of two limits that share a count, the one that is stricter in the long
// run may admit more at once.
func TestBurstOfEveryReading(t *testing.T) {
	for limits, want := range map[[2]string]int{
		{"10/1m burst 10x", "52/1m"}:              50, // the burst is a multiple
		{"10/1m", "5/1m burst 4x"}:                10,
		{"10/1m burst 50 bucket", "20/1m bucket"}: 20,
		{"0/1m", "20/1m"}:                         0,
	} {
		w := newWorld(t, `
tiers:
  - {name: bulk, match: {path: /bulk/**}, identity: ip, limits: `+limits[0]+`}
  - {name: anyone, identity: ip, limits: `+limits[1]+`}
`)
		if got := w.admitted(120, request(t, "GET", "/bulk/../x", nil)); got != want {
			t.Errorf("%q: admitted %d, want %d", limits, got, want)
		}
	}
}

// TestEveryReadingIsCounted: a policy that divides its count by a variable or the method counts
// under the values of every reading, so that a spelling is no fresh count.
func TestEveryReadingIsCounted(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 1000/1m}]
policies:
  - {name: items, match: {path: "/items/{id}"}, per: id, limits: 1/1m}
  - {name: methods, match: {path: /methods}, per: method, limits: 1/1m}
`)
	for _, first := range []policy.Input{request(t, "GET", "/items/42", nil), request(t, "GET", "/methods", nil)} {
		if !w.judge(first).Decision.Allowed {
			t.Fatal("the first request is denied")
		}
	}
	override := http.Header{"X-Http-Method-Override": {"GET"}}
	for _, in := range []policy.Input{
		request(t, "GET", "/items/42#x", nil),
		request(t, "GET", "/items/42;x", nil),
		request(t, "GET", "/items/x%2f..%2f42", nil),
		request(t, "GET", `/items/x\..\42`, nil),
		request(t, "GET", "/ITEMS/42", nil),
		request(t, "get", "/methods", nil),
		request(t, "POST", "/methods", override),
	} {
		if w.judge(in).Decision.Allowed {
			t.Errorf("%s %s has a count of its own", in.Method, in.Path)
		}
	}
	for _, in := range []policy.Input{
		request(t, "GET", "/items/43", nil), request(t, "GET", "/items/Ab", nil), request(t, "GET", "/items/aB", nil),
		request(t, "POST", "/methods", nil),
	} {
		if !w.judge(in).Decision.Allowed {
			t.Errorf("%s %s has no count of its own", in.Method, in.Path)
		}
	}
}

// TestTermsOfReadings: of two readings the dearer one counts, and what gives something back has to
// be the same in both.
func TestTermsOfReadings(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 1000/1m, budget: 1000/1m}]
request_id: {header: Idempotency-Key}
policies:
  - {name: open, match: {path: /open/**}, cost: 2, refund: 4xx, failure: {mode: allow}, request_id: {header: X-Once}}
  - {name: paid, match: {path: /paid}, cost: 7, failure: {mode: deny}}
`)
	for target, want := range map[string][4]string{
		"/open/x":       {"2", "allow", "everything is given back after a 4xx", "X-Once"},
		"/paid":         {"7", "deny", "", "Idempotency-Key"},
		"/open/../paid": {"7", "deny", "", ""},
		"/open/x;y":     {"2", "allow", "everything is given back after a 4xx", "X-Once"},
	} {
		in := request(t, "GET", target, nil)
		e := w.Set().Explain(&in, nil)
		if got := [4]string{strconv.FormatInt(e.Cost, 10), e.Failure.Mode.String(), e.After, e.RequestID}; got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}

// TestEndingsThatAreExempt: an ending exempts what has no limit without it.
func TestEndingsThatAreExempt(t *testing.T) {
	w := newWorld(t, `
tiers:
  - {name: reports, match: {path: /report}, identity: ip, limits: 1000/1m}
  - {name: anyone, identity: ip, limits: 1000/1m}
policies:
  - {name: styles, match: {path: "/**/*.css"}, skip: true}
  - {name: search, match: {path: /search}, limits: 100/1m}
  - {name: pages, match: {path: "/{page}"}, limits: 100/1m}
`)
	for target, want := range map[string]string{
		"/site.css": "styles", "/a/site.css": "styles", "/a/search.css": "styles", "/%73ite.css": "styles",
		"/search.css": "", "/SEARCH.css": "", "/report.css": "", "/search.html": "",
	} {
		if v := w.judge(request(t, "GET", target, nil)); v.Skipped != want {
			t.Errorf("%s: skipped by %q, want %q", target, v.Skipped, want)
		}
	}
}

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
				t.Errorf("%s: %q counts as %s, and %q as %s; want one count", test.field, test.value, want, value, got)
			}
		}
		for _, value := range test.other {
			if got := subject(test.field, value); got == want {
				t.Errorf("%s: %q and %q have one count, %s; want two", test.field, test.value, value, got)
			}
		}
	}
}

// TestHeaderLines: applications differ in which line of a field they read. An empty line hides
// none, and what exempts has to be in all.
func TestHeaderLines(t *testing.T) {
	w := newWorld(t, `
tiers: [{name: anyone, identity: ip, limits: 1000/1m}]
policies:
  - {name: probes, match: {header: {X-Probe: "1"}}, skip: true}
  - {name: heavy, match: {header: {X-Size: large}}, unless: {header: {X-Free: "1"}}, limits: 0/1m}
`)
	for _, test := range []struct {
		header  http.Header
		skipped string
		allowed bool
	}{
		{http.Header{"X-Probe": {"1"}}, "probes", true},
		{http.Header{"X-Probe": {"1", "2"}}, "", true},
		{http.Header{"X-Probe": {"1", ""}}, "", true},
		{http.Header{"X-Size": {"small", "large"}}, "", false},
		{http.Header{"X-Size": {"", "large"}}, "", false},
		{http.Header{"X-Size": {"large"}, "X-Free": {"1"}}, "", true},
		{http.Header{"X-Size": {"large"}, "X-Free": {"1", "0"}}, "", false},
	} {
		if v := w.judge(getWith("/", test.header)); v.Skipped != test.skipped || v.Decision.Allowed != test.allowed {
			t.Errorf("%+v: skipped by %q, allowed %v", test, v.Skipped, v.Decision.Allowed)
		}
	}
}

// TestRepeatedIdentity: some applications read the first of two keys, some the last: another key
// beside a key does not start a fresh count.
func TestRepeatedIdentity(t *testing.T) {
	for _, test := range []struct {
		identity, field string
		used, fresh     []string
		beside          [][]string
	}{
		{"header: X-API-Key", "X-Api-Key", []string{"mine"}, []string{"yours"},
			[][]string{{"other", "mine"}, {"mine", "other"}, {"other", "another", "mine", ""}, {"", "mine"}}},
		{"cookie: session", "Cookie", []string{"a=b; session=mine"}, []string{"session=yours; a=session"},
			[][]string{{"session=other; session=mine"}, {"session=mine", "session=other"}}},
	} {
		w := newWorld(t, `
identities: {key: {`+test.identity+`}}
tiers:
  - {name: keys, identity: key, limits: 1/1m}
  - {name: anyone, identity: ip, limits: 1000/1m}
`)
		for i, lines := range append([][]string{test.used, test.fresh}, test.beside...) {
			v := w.judge(getWith("/", http.Header{test.field: lines}))
			if first := i < 2; v.Decision.Allowed != first || v.Tier != "keys" {
				t.Errorf("%q: allowed %v in the tier %s, want %v", lines, v.Decision.Allowed, v.Tier, first)
			}
		}
	}
}

// TestTooMuchToRead: requests with more readings, methods or cookies than are judged are denied
// where these matter, and where anything is enforced.
func TestTooMuchToRead(t *testing.T) {
	const rules = `
identities: {session: {cookie: session}}
tiers:
  - {name: visitor, identity: session, limits: 1000/1m}
  - {name: anyone, identity: ip, limits: 1000/1m}
policies: [{name: search, match: {method: GET}, limits: 1000/1m}]
`
	const shadow = `
tiers: [{name: anyone, identity: everyone, limits: 1000/1m, shadow: true}]
policies: [{name: login, match: {path: /login}, limits: 1/1m`
	many := strings.Repeat("//x", 40)
	for _, test := range []struct {
		config, target string
		header         http.Header
		denied         bool
	}{
		{rules, "/", http.Header{"X-Http-Method-Override": {strings.Repeat("x,", 20)}}, false},
		{rules, "/", http.Header{"X-Http-Method-Override": {strings.Repeat("x,", 60) + "GET"}}, true},
		{rules, "/", http.Header{"Cookie": {strings.Repeat("a=b;", 500)}}, false},
		{rules, "/", http.Header{"Cookie": {strings.Repeat(";", 60_000) + "session=x"}}, true},
		{shadow + ", shadow: true}]", many, nil, false},
		{shadow + "}]", many, nil, true},
	} {
		v := newWorld(t, test.config).judge(request(t, "POST", test.target, test.header))
		if v.Decision.Allowed == test.denied || test.denied && test.target == many && (!v.Results[0].Shared || v.Results[0].Subject != "everyone") {
			t.Errorf("%s, %.40v: allowed %v by %+v", test.target, test.header, v.Decision.Allowed, v.Results)
		}
	}
}

// TestTooManyReadings: a request that would be counted more often than one question can ask is
// denied, and is no mistake.
func TestTooManyReadings(t *testing.T) {
	for _, shadow := range []string{"", ", shadow: true"} {
		config := "tiers: [{name: anyone, identity: ip, limits: 1000/1m}]\npolicies:\n"
		for i := range 6 {
			config += fmt.Sprintf("  - {name: p%d, per: method, limits: 1000/1m%s}\n", i, shadow)
		}
		w := newWorld(t, config)
		in := request(t, "POST", "/", http.Header{"X-Http-Method-Override": {"GET,PUT,DELETE,PATCH"}})
		v := w.judge(in)
		if denied := shadow == ""; v.Decision.Allowed == denied {
			t.Errorf("shadow %q: allowed %v", shadow, v.Decision.Allowed)
		}
		if r := v.Decisive(); r == nil || shadow == "" && (r.Decisive().Limit.Max != 0 || r.Rule.Tier != "anyone") {
			t.Errorf("decisive is %+v", r)
		}
		inShadow := slices.DeleteFunc(slices.Clone(v.Results), func(r policy.Result) bool { return !r.Shadow })
		if n := len(inShadow); shadow != "" && (n == 0 || n > stint.MaxClaims) {
			t.Errorf("%d rules in shadow are asked", n)
		}
		if !w.judge(request(t, "POST", "/", nil)).Decision.Allowed {
			t.Error("an ordinary request is denied")
		}
	}
}
