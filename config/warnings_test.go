package config

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// good are configurations that can be used, with the warnings that there are.
var good = []struct {
	name string
	text string
	want string // a line for each warning
}{
	{"base", base, ""},
	{"beginning with dashes", "---\n" + base, ""},
	{"with a byte order mark", "\ufeff" + base, ""},
	{"with the ends of lines of Windows", strings.ReplaceAll(base, "\n", "\r\n"), ""},
	{"names that are numbers", "tiers:\n  - {name: 42, identity: user, limits: 1/s}\n  - {name: 1.5, identity: ip, limits: 1/d}\n", ""},
	{"anchors", "tiers:\n  - {name: a, identity: user, limits: &l [10/1m, 100/1h]}\n  - {name: b, identity: ip, limits: *l}\n", ""},
	{"no policies", base + "policies: []\n", ""},
	{"nothing costs nothing", base + "policies:\n  - {name: free, match: {path: /}, cost: 0}\n", ""},
	{"nothing odd", base + `client_ip: {trusted_proxies: [10.0.0.0/8, 2001:db8::/32, "fc00::/7", loopback, private, unix]}
claims: {plan: X-Plan, role: ""}
policies:
  - {name: a, match: {method: [GET, PROPFIND, PURGE], path: ["/users/{id}", "/a:b/c", "/x/**", "/**/*.css"], claim: {plan: pro, role: admin}}, limits: 1/1s}
`, ""},
	{"trusted proxies that include everyone", base + `client_ip:
  trusted_proxies: [0.0.0.0/0, "::/0", 64.0.0.0/3, "2000::/3", "::ffff:0.0.0.0/96", 10.0.0.0/8]
`,
		`stint.yaml:4: warning: client_ip.trusted_proxies[0]: "0.0.0.0/0" is every IPv4 address: anyone in it can set the client's address and claims in headers; list only your own proxies
stint.yaml:4: warning: client_ip.trusted_proxies[1]: "::/0" is every IPv6 address: anyone in it can set the client's address and claims in headers; list only your own proxies
stint.yaml:4: warning: client_ip.trusted_proxies[2]: "64.0.0.0/3" is a very wide range: anyone in it can set the client's address and claims in headers; list only your own proxies
stint.yaml:4: warning: client_ip.trusted_proxies[3]: "2000::/3" is a very wide range: anyone in it can set the client's address and claims in headers; list only your own proxies
stint.yaml:4: warning: client_ip.trusted_proxies[4]: "::ffff:0.0.0.0/96" is every IPv4 address: anyone in it can set the client's address and claims in headers; list only your own proxies`},
	{"an identity that clients choose", base + "identities: {print: {header: X-Print}}\n" +
		"policies:\n  - {name: login, match: {path: /login}, identity: [print, ip], limits: 5/15m}\n",
		`stint.yaml:5: warning: policies[0].identity: clients choose the value of the header X-Print, and each new value starts a new count; count the same requests by address too, in a policy with identity: ip, or by a claim that is verified`},
	{"webhooks without notify", base + "webhooks: [{url: https://example.com, key_file: key}]\n",
		`stint.yaml:3: warning: webhooks: nothing is posted: no tier and no policy has notify, such as notify: [80%, 100%]`},
	{"path syntax of other routers", base + `policies:
  - {name: a, match: {path: /users/:id}, limits: 1/1s}
  - {name: b, match: {path: [/a, "/<int:org>/[slug]/x"]}, limits: 1/1s}
  - name: c
    match: {path: /x/**}
    unless: {path: ["/api/.*", '/v(1|2)/x', '/items/\d']}
    limits: 1/1s
gateway: {routes: [{path: "/t/:tenant/**", upstream: "http://a"}]}
`,
		`stint.yaml:4: warning: policies[0].match.path: ":id" is matched literally in "/users/:id"; write /users/{id}
stint.yaml:5: warning: policies[1].match.path[1]: "[slug]" is matched literally in "/<int:org>/[slug]/x"; write /{org}/{slug}/x
stint.yaml:8: warning: policies[2].unless.path[0]: "/api/.*" is matched literally, but looks like a regular expression; want something like /users/{id}, /static/** or /**/*.css
stint.yaml:8: warning: policies[2].unless.path[1]: "/v(1|2)/x" is matched literally, but looks like a regular expression; want something like /users/{id}, /static/** or /**/*.css
stint.yaml:8: warning: policies[2].unless.path[2]: "/items/\\d" is matched literally, but looks like a regular expression; want something like /users/{id}, /static/** or /**/*.css
stint.yaml:10: warning: gateway.routes[0].path: ":tenant" is matched literally in "/t/:tenant/**"; write /t/{tenant}/**`},
	{"unknown methods", base + "policies:\n  - {name: a, match: {method: [GTE, POST, BREW]}, limits: 1/1s}\n",
		`stint.yaml:4: warning: policies[0].match.method[0]: "GTE" is not an HTTP method (did you mean "GET"?)
stint.yaml:4: warning: policies[0].match.method[2]: "BREW" is not an HTTP method`},
	{"claims that no header sets", `client_ip: {trusted_proxies: loopback}
claims: {user: X-User, plan: X-Plan}
identities: {org: {claim: orgs}}
tiers:
  - {name: pro, match: {claim: {plans: pro}}, identity: user, limits: 1/1s}
  - {name: team, unless: {claim: {team: "*"}}, identity: org, limits: 1/1s}
  - {name: all, identity: ip, limits: 10/1m}
`,
		`stint.yaml:3: warning: identities.org.claim: no header sets the claim "orgs"; want one under claims, or claims: {orgs: ""} if the application passes it
stint.yaml:5: warning: tiers[0].match.claim.plans: no header sets the claim "plans"; want one under claims, or claims: {plans: ""} if the application passes it (did you mean "plan"?)
stint.yaml:6: warning: tiers[1].unless.claim.team: no header sets the claim "team"; want one under claims, or claims: {team: ""} if the application passes it`},
	{"claims of limits that no header sets", `client_ip: {trusted_proxies: loopback}
claims: {rpm: X-Rpm}
tiers:
  - {name: some, match: {claim: {rpm: "*"}}, identity: ip, limits: [5/1s, {limit: 60/1m, claim: rpn, max: 100}]}
  - {name: all, identity: ip, limits: {limit: 60/1m, claim: rpm, max: 100}, budget: {limit: 60/1m, claim: tpm, max: 100}}
policies:
  - {name: a, limits: {some: {limit: 10/1s, claim: rps, max: 100}, default: 1/1s}}
  - {name: b, limits: [1/1s, {limit: 600/1m, claim: rpm, max: 1000}]}
`,
		`stint.yaml:4: warning: tiers[0].limits[1].claim: no header sets the claim "rpn"; want one under claims, or claims: {rpn: ""} if the application passes it (did you mean "rpm"?)
stint.yaml:5: warning: tiers[1].budget.claim: no header sets the claim "tpm"; want one under claims, or claims: {tpm: ""} if the application passes it (did you mean "rpm"?)
stint.yaml:7: warning: policies[0].limits.some.claim: no header sets the claim "rps"; want one under claims, or claims: {rps: ""} if the application passes it (did you mean "rpm"?)`},
	{"no claims at all, in a gateway", `identities: {org: {claim: org}}
tiers:
  - {name: some, identity: user, limits: 1/1s}
  - {name: all, identity: ip, limits: 10/1m}
policies: [{name: a, identity: [org, ip], limits: 1/1s}]
gateway: {routes: [{upstream: "http://a"}]}
`,
		`stint.yaml:1: warning: identities.org.claim: no header sets the claim "org"; want one under claims, or claims: {org: ""} if the application passes it
stint.yaml:3: warning: tiers[0].identity: no header sets the claim "user"; want one under claims, or claims: {user: ""} if the application passes it`},
	{"no claim user", "claims: {plan: \"\"}\ntiers:\n  - {name: some, identity: user, limits: 1/1s}\n  - {name: all, identity: ip, limits: 10/1m}\n",
		`stint.yaml:3: warning: tiers[0].identity: no header sets the claim "user"; want one under claims, or claims: {user: ""} if the application passes it`},
	{"no claims at all", "tiers:\n  - {name: pro, match: {claim: {plan: pro}}, identity: user, limits: 1/1s}\n  - {name: all, identity: ip, limits: 10/1m}\n",
		`stint.yaml:2: warning: tiers[0].match.claim.plan: no header sets the claim "plan"; want one under claims, or claims: {plan: ""} if the application passes it`},
	{"derived ids in Redis", base + "store: {url: redis://a}\npolicies: [{name: a, request_id: {derive: 2s}}]\n",
		`stint.yaml:4: warning: policies[0].request_id.derive: Redis keeps a hash of the body, from which passwords and codes can be guessed; do not use it on routes that take them, or set store.name_key_file`},
	{"derived ids in Redis, hashed", base + "store: {url: redis://a, name_key_file: /k}\npolicies: [{name: a, request_id: {derive: 2s}}]\n", ""},
	{"derived ids in memory", base + "policies: [{name: a, request_id: {derive: 2s}}]\n", ""},
	{"a scope that is nearly a word", "tiers:\n  - {name: all, identity: ip, scope: routes, limits: 10/1m}\n",
		`stint.yaml:2: warning: tiers[0].scope: "routes" names one count for all requests (did you mean "route"?)`},
	{"prices in dollars", base + "policies:\n  - name: a\n    hold: 2s\n    budget: ['output_token: 9/1m', 'tokens: 9/1m', 'price: 50/month']\n" +
		"    usage: {preset: openai, prices: {big: {input: 1000, output: 1}, small: {input: 2, output: 10}, free: {input: 0}}}\n",
		`stint.yaml:5: warning: policies[0].hold: 2s: if the process or the store pauses for longer, the estimates of responses under way are given back; want 10s or more, such as 5m
stint.yaml:6: warning: policies[0].budget[0]: "output_token" counts all tokens (did you mean "output_tokens"?)
stint.yaml:7: warning: policies[0].usage.prices.small: a million tokens cost at most 10, so most requests cost 1, rounded up; prices are per million tokens in units of the budget: 2500000 for 2.50 dollars, if 1 is a millionth of a dollar`},
	{"limits without effect", `tiers:
  - name: pro
    match: {claim: {plan: pro}}
    identity: ip
    limits:
      - unlimited/7d
      - 100/1m burst 3x
      - 2000/1h
      - 50000/1d
  - {name: all, identity: ip, limits: [1/1s, 100/1m], budget: [10/1m, "other: 10/1m"]}
claims: {plan: ""}
policies:
  - name: a
    limits:
      pro: [30/1m burst 2x, 500/1h, 5000/1d]
      default: [100/1m, 50/1h]
outbound: {x: {limits: [1/1s, 60/1m fixed]}}
`,
		`stint.yaml:9: warning: tiers[0].limits[3]: 50000/1d has no effect: 2000/1h allows at most 48000/1d; lower it, raise 2000/1h, or leave it out
stint.yaml:10: warning: tiers[1].limits[1]: 100/1m has no effect: 1/1s allows at most 60/1m; lower it, raise 1/1s, or leave it out
stint.yaml:16: warning: policies[0].limits.default[0]: 100/1m has no effect: 50/1h allows at most 50/1m; lower it, raise 50/1h, or leave it out
stint.yaml:17: warning: outbound.x.limits[1]: 60/1m fixed has no effect: 1/1s allows at most 60/1m; lower it, raise 1/1s, or leave it out`},
}

func TestWarnings(t *testing.T) {
	for _, test := range good {
		t.Run(test.name, func(t *testing.T) {
			if got, want := (&Error{parsed(t, test.text).Warnings}).Error(), test.want; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestTooManyLimits are one mistake: they are not compared with each other, which would take long.
func TestTooManyLimits(t *testing.T) {
	var limits strings.Builder
	for i := range 16_000 {
		fmt.Fprintf(&limits, `"l%d: %d/1s", `, i, i+1)
	}
	_, err := Parse("stint.yaml", []byte("tiers:\n  - {name: all, identity: ip, limits: ["+limits.String()+"]}\n"))
	if want := "stint.yaml:2: tiers[0].limits: 16000 limits; want at most 16"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestWatcherLogsWarnings at the start and after a change, once each.
func TestWatcherLogsWarnings(t *testing.T) {
	text := func(method string) string {
		return base + "policies: [{name: a, match: {method: " + method + "}, limits: 1/1s}]\n"
	}
	path := writeFile(t, text("GTE"))
	var log bytes.Buffer
	w := watch(t, path, &Watcher{Logger: slog.New(slog.NewTextHandler(&log, nil))}, false)
	before := w.guard.Set()
	w.Reload()
	w.put(path, text("PSOT"))
	if err := w.Reload().Err; err != nil || w.guard.Set() == before {
		t.Errorf("a warning keeps a set out of force: %v", err)
	}
	for _, want := range []string{`level=WARN msg="config: \"GTE\" is not an HTTP method (did you mean \"GET\"?)" file=`,
		`\"PSOT\" is not an HTTP method (did you mean \"POST\"?)" file=` + path + ` line=3 key=policies[0].match.method`} {
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("%d of %q, want 1, in\n%s", n, want, &log)
		}
	}
}
