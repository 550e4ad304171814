package config

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestChosenIdentities has the keys of what warns that clients choose what they are counted by
// (fresh), and that others can have them banned (bans).
func TestChosenIdentities(t *testing.T) {
	const identities = `client_ip: {trusted_proxies: loopback}
claims: {user: X-User, plan: X-Plan}
identities:
  print: {header: X-Print}
  key: {header: X-Key}
  basic: {header: Authorization}
  session: {cookie: session}
  device: {all: [ip, print]}
  own: {all: [user, print]}
  plan: {claim: plan}
`
	const byIP = "tiers: [{name: all, identity: ip, limits: 10/1m}]\n"
	const login = "match: {method: POST, path: /login}"
	for _, test := range []struct {
		name, text string
		want       string
	}{
		{"claims and addresses", "tiers: [{name: a, identity: [user, plan], limits: 10/1m}, {name: b, identity: ip, limits: 10/1m}]\n" +
			"policies: [{name: p, " + login + ", limits: 5/15m}]", ""},
		{"a policy by header", byIP + "policies: [{name: p, " + login + ", identity: [print, ip], limits: 5/15m}]", "policies[0].identity fresh"},
		{"by cookie", byIP + "policies: [{name: p, " + login + ", identity: [session, ip], limits: 5/15m}]", "policies[0].identity fresh"},
		{"by address and header", byIP + "policies: [{name: p, " + login + ", identity: [device, ip], limits: 5/15m}]", "policies[0].identity fresh"},
		{"a budget", byIP + "policies: [{name: p, " + login + ", identity: [print, ip], budget: 5/15m}]", "policies[0].identity fresh"},
		{"only in one tier", "tiers: [{name: u, identity: user, limits: 10/1m}, {name: all, identity: ip, limits: 10/1m}]\n" +
			"policies: [{name: p, " + login + ", identity: [user, print, ip], limits: {u: 5/15m}}]", ""},
		{"in the other, too", "tiers: [{name: u, identity: user, limits: 10/1m}, {name: all, identity: ip, limits: 10/1m}]\n" +
			"policies: [{name: p, " + login + ", identity: [user, print, ip], limits: 5/15m}]", "policies[0].identity fresh"},
		{"shadow", byIP + "policies: [{name: p, " + login + ", identity: [print, ip], limits: 5/15m, shadow: true}]", ""},
		{"every route, in a tier by address", byIP + "policies: [{name: p, identity: [print, ip], limits: 5/1s}]", ""},
		{"a route, and a tier that allows no more", byIP + "policies: [{name: p, " + login + ", identity: [print, ip], limits: 5/1s}]", ""},
		{"the same by address", byIP + "policies: [{name: p, " + login + ", identity: [print, ip], limits: 5/15m}, {name: q, " + login + ", identity: ip, limits: 20/1h}]", ""},
		{"by everyone", byIP + "policies: [{name: p, " + login + ", identity: [print, ip], limits: 5/15m}, {name: q, " + login + ", identity: everyone, limits: 20/1h}]", ""},
		{"by user or address", byIP + "policies: [{name: p, " + login + ", identity: [print, ip], limits: 5/15m}, {name: q, " + login + ", identity: [user, ip], limits: 20/1h}]", ""},
		{"by another header or address", byIP + "policies: [{name: p, " + login + ", identity: [print, ip], limits: 5/15m}, {name: q, " + login + ", identity: [key, ip], limits: 20/1h}]",
			"policies[0].identity fresh, policies[1].identity fresh"},
		{"more by address", byIP + "policies: [{name: p, " + login + ", identity: [print, ip], limits: 5/15m}, {name: q, match: {path: [/x, /**]}, identity: ip, limits: 20/1h}]", ""},
		{"less by address", byIP + "policies: [{name: p, match: {path: [/login, /token]}, identity: [print, ip], limits: 5/15m}, {name: q, match: {path: /login}, identity: ip, limits: 20/1h}]",
			"policies[0].identity fresh"},
		{"other methods by address", byIP + "policies: [{name: p, match: {path: /login}, identity: [print, ip], limits: 5/15m}, {name: q, " + login + ", identity: ip, limits: 20/1h}]",
			"policies[0].identity fresh"},
		{"in shadow by address", byIP + "policies: [{name: p, " + login + ", identity: [print, ip], limits: 5/15m}, {name: q, " + login + ", identity: ip, limits: 20/1h, shadow: true}]",
			"policies[0].identity fresh"},
		{"places by address", byIP + "policies: [{name: p, " + login + ", identity: [print, ip], limits: 5/15m}, {name: q, " + login + ", identity: ip, limits: 9/1m concurrency}]",
			"policies[0].identity fresh"},
		{"by address, divided by the client", byIP + "policies: [{name: p, match: {path: '/u/{id}'}, identity: [print, ip], limits: 5/15m}, {name: q, match: {path: '/u/{id}'}, per: id, identity: ip, limits: 20/1h}]",
			"policies[0].identity fresh"},
		{"by address, not for some clients", byIP + "policies: [{name: p, " + login + ", identity: [print, ip], limits: 5/15m}, {name: q, " + login + ", unless: {network: private}, identity: ip, limits: 20/1h}]", ""},
		{"by address, not for some headers", byIP + "policies: [{name: p, " + login + ", identity: [print, ip], limits: 5/15m}, {name: q, " + login + ", unless: {header: {X-Test: '*'}}, identity: ip, limits: 20/1h}]",
			"policies[0].identity fresh"},
		{"a tier by header", "tiers: [{name: keys, identity: [user, key], limits: 10/1m}, {name: all, identity: ip, limits: 10/1m}]\n", "tiers[0].identity fresh"},
		{"a tier by header, and its invented values by address", "tiers: [{name: keys, identity: [user, key], limits: 10/1m}, {name: all, identity: ip, limits: 10/1m}]\n" +
			"policies: [{name: p, match: {header: {x-key: '*'}}, identity: ip, limits: 600/1m}, {name: q, " + login + ", limits: 5/15m}]", ""},
		{"another tier's, by address", "tiers: [{name: keys, identity: key, limits: 10/1m}, {name: all, identity: ip, limits: 10/1m}]\n" +
			"policies: [{name: p, identity: ip, limits: {all: 600/1m, default: unlimited}}]", "tiers[0].identity fresh"},
		{"an unlimited tier by header", "tiers: [{name: keys, identity: key, limits: unlimited}, {name: all, identity: ip, limits: 10/1m}]\n", ""},
		{"an unlimited tier by header, and a policy", "tiers: [{name: keys, identity: key, limits: unlimited}, {name: all, identity: ip, limits: 10/1m}]\n" +
			"policies: [{name: q, " + login + ", limits: 5/15m}]", "tiers[0].identity fresh"},
		{"a user's devices, and the user", "tiers: [{name: u, identity: user, limits: 10/1m}, {name: all, identity: ip, limits: 10/1m}]\n" +
			"policies: [{name: p, identity: [own, ip], limits: 5/15m}]", ""},

		{"bans by header", byIP + "bans: {after: 9, within: 1m, durations: [1h]}\npolicies: [{name: p, identity: [key, ip], limits: 5/15m}]", "policies[0].identity bans"},
		{"bans by a secret", byIP + "bans: {after: 9, within: 1m, durations: [1h]}\npolicies: [{name: p, identity: [basic, session, device, own, ip], limits: 5/15m}]", ""},
		{"bans by header in a tier", "tiers: [{name: keys, identity: key, limits: 10/1m, bans: {after: 9, within: 1m, durations: [1h]}}, {name: all, identity: ip, limits: 10/1m}]\n" +
			"policies: [{name: p, identity: ip, limits: 600/1m}]", "tiers[0].identity bans"},
		{"bans elsewhere", "bans: {after: 9, within: 1m, durations: [1h]}\ntiers: [{name: keys, identity: key, limits: 10/1m, bans: {after: 0}}, {name: all, identity: ip, limits: 10/1m}]\n" +
			"policies: [{name: p, identity: ip, limits: 600/1m}]", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := Parse("stint.yaml", []byte(identities+test.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range c.Warnings {
				kind := map[bool]string{true: "bans", false: "fresh"}[strings.Contains(w.Message, "ban its owner")]
				got = append(got, w.Key+" "+kind)
			}
			if got := strings.Join(got, ", "); got != test.want {
				t.Errorf("got %q, want %q: %v", got, test.want, c.Warnings)
			}
		})
	}
}

// TestExampleWithoutAddress is the example without its limit of logins by address.
func TestExampleWithoutAddress(t *testing.T) {
	text, err := os.ReadFile("../examples/tiers/stint.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse("stint.yaml", regexp.MustCompile(`(?s)  - name: login-address.*?\n\n`).ReplaceAll(text, []byte("\n")))
	if err != nil {
		t.Fatal(err)
	}
	const want = "stint.yaml:86: warning: policies[6].identity: clients choose the value of the header X-Fingerprint, and every new one has " +
		"a fresh count; count the same requests by address too, in a policy with identity: ip, or by a claim that is verified"
	if got := (&Error{c.Warnings}).Error(); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestFitsPath(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"/login", "/login", true}, {"/login", "/login/", true}, {"/login", "/Login", false}, {"/login", "/login/x", false},
		{"/**", "/login", true}, {"/**", "/", true}, {"/**", "/**", true}, {"/**", "/a/{b}/**", true},
		{"/a/**", "/a/b", true}, {"/a/**", "/a", true}, {"/a/**", "/b", false}, {"/a/**", "/{x}/b", false}, {"/a/**", "/**", false},
		{"/{x}", "/login", true}, {"/*", "/{x}", true}, {"/{x}", "/**", false}, {"/{x}", "/a/b", false},
		{"/**/b", "/a/b", true}, {"/**/b", "/a/c", false}, {"/**/b", "/**/b", true}, {"/**/b", "/**", false},
		{"/**/*.css", "/a/*.css", true}, {"/a/**/b", "/a/x/y/b", true}, {"/a/**/b", "/a", false}, {"/a/**/a", "/a", false},
	} {
		if got := fitsPath(test.pattern, test.text); got != test.want {
			t.Errorf("%s in %s: got %t, want %t", test.text, test.pattern, got, test.want)
		}
	}
}
