package config

import (
	"fmt"
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
	const (
		byIP   = "tiers: [{name: all, identity: ip, limits: 10/1m}]\n"
		byUser = "tiers: [{name: u, identity: user, limits: 10/1m}, {name: all, identity: ip, limits: 10/1m}]\n"
		byKey  = "tiers: [{name: k, identity: [user, key], limits: 10/1m}, {name: all, identity: ip, limits: 10/1m}]\n"
		free   = "tiers: [{name: k, identity: key, limits: unlimited}, {name: all, identity: ip, limits: 10/1m}]\n"
		bans   = "bans: {after: 9, within: 1m, durations: [1h]}\n"
		login  = "match: {method: POST, path: /login}, "
		prints = login + "identity: [print, ip], limits: 5/15m"
		fresh  = "policies[0].identity fresh"
	)
	policies := func(all ...string) string {
		text := "policies:\n"
		for i, p := range all {
			text += fmt.Sprintf("  - {name: p%d, %s}\n", i, p)
		}
		return text
	}
	for _, test := range []struct {
		name, text string
		want       string
	}{
		{"claims and addresses", byUser + policies(login+"limits: 5/15m"), ""},
		{"by header", byIP + policies(prints), fresh},
		{"by cookie", byIP + policies(login+"identity: [session, ip], limits: 5/15m"), fresh},
		{"by address and header", byIP + policies(login+"identity: [device, ip], limits: 5/15m"), fresh},
		{"a budget", byIP + policies(login+"identity: [print, ip], budget: 5/15m"), fresh},
		{"after what its tier has", byUser + policies(login+"identity: [user, print, ip], limits: {u: 5/15m}"), ""},
		{"in another tier, too", byUser + policies(login+"identity: [user, print, ip], limits: 5/15m"), fresh},
		{"shadow", byIP + policies(prints+", shadow: true"), ""},
		{"a rollout of 0%", byIP + policies(prints+", rollout: 0%"), ""},
		{"every route, in a tier by address", byIP + policies("identity: [print, ip], limits: 5/15m"), ""},
		{"a tier that allows no more", byIP + policies(login+"identity: [print, ip], limits: 5/1s"), ""},
		{"the same by address", byIP + policies(prints, login+"identity: ip, limits: 20/1h"), ""},
		{"by everyone", byIP + policies(prints, login+"identity: everyone, limits: 20/1h"), ""},
		{"by user or address", byIP + policies(prints, login+"identity: [user, ip], limits: 20/1h"), ""},
		{"by another header", byIP + policies(prints, login+"identity: [key, ip], limits: 20/1h"),
			fresh + ", policies[1].identity fresh"},
		{"more by address", byIP + policies(prints, "match: {path: [/x, /**]}, identity: ip, limits: 20/1h"), ""},
		{"less by address", byIP + policies("match: {path: [/login, /token]}, identity: [print, ip], limits: 5/15m",
			"match: {path: /login}, identity: ip, limits: 20/1h"), fresh},
		{"other methods by address", byIP + policies("match: {path: /login}, identity: [print, ip], limits: 5/15m",
			login+"identity: ip, limits: 20/1h"), fresh},
		{"more hosts by address", byIP + policies("match: {host: a.example.com}, identity: [print, ip], limits: 5/15m",
			"match: {host: '*.example.com'}, identity: ip, limits: 20/1h"), ""},
		{"another host by address", byIP + policies("match: {host: a.example.com}, identity: [print, ip], limits: 5/15m",
			"match: {host: [b.example.com, '*.other.com']}, identity: ip, limits: 20/1h"), fresh},
		{"more plans by address", byIP + policies("match: {path: /x, claim: {plan: pro}}, identity: [print, ip], limits: 5/15m",
			"match: {path: /x, claim: {plan: [pro, team]}}, identity: ip, limits: 20/1h"), ""},
		{"another plan by address", byIP + policies("match: {path: /x, claim: {plan: pro}}, identity: [print, ip], limits: 5/15m",
			"match: {path: /x, claim: {plan: team}}, identity: ip, limits: 20/1h"), fresh},
		{"in shadow by address", byIP + policies(prints, login+"identity: ip, limits: 20/1h, shadow: true"), fresh},
		{"places by address", byIP + policies(prints, login+"identity: ip, limits: 9/1m concurrency"), fresh},
		{"divided by the client", byIP + policies("match: {path: '/u/{id}'}, identity: [print, ip], limits: 5/15m",
			"match: {path: '/u/{id}'}, per: id, identity: ip, limits: 20/1h"), fresh},
		{"not for some clients", byIP + policies(prints, login+"unless: {network: private}, identity: ip, limits: 20/1h"), ""},
		{"not for some headers", byIP + policies(prints, login+"unless: {header: {X-Test: '*'}}, identity: ip, limits: 20/1h"),
			fresh},
		{"a tier by header", byKey, "tiers[0].identity fresh"},
		{"a tier by header, and these by address", byKey + policies("match: {header: {x-key: '*'}}, identity: ip, limits: 600/1m",
			login+"limits: 5/15m"), ""},
		{"another tier by address", byKey + policies("identity: ip, limits: {all: 600/1m, default: unlimited}"),
			"tiers[0].identity fresh"},
		{"an unlimited tier by header", free, ""},
		{"and a policy in it", free + policies(login+"limits: 5/15m"), "tiers[0].identity fresh"},
		{"a user's devices, and the user", byUser + policies("identity: [own, ip], limits: 5/15m"), ""},

		{"bans by header", bans + byIP + policies("identity: [key, ip], limits: 5/15m"), "policies[0].identity bans"},
		{"bans by secrets", bans + byIP + policies("identity: [basic, session, device, own, ip], limits: 5/15m"), ""},
		{"bans of a tier", strings.Replace(byKey, "10/1m", "10/1m, "+strings.TrimSpace(bans), 1) +
			policies("identity: ip, limits: 600/1m"), "tiers[0].identity bans"},
		{"bans of other tiers", bans + strings.Replace(byKey, "10/1m", "10/1m, bans: {after: 0}", 1) +
			policies("identity: ip, limits: 600/1m"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := parsed(t, identities+test.text)
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

func TestFitsPath(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"/login", "/login", true}, {"/login", "/login/", true}, {"/login", "/Login", false},
		{"/login", "/login/x", false},
		{"/**", "/login", true}, {"/**", "/", true}, {"/**", "/**", true}, {"/**", "/a/{b}/**", true},
		{"/a/**", "/a/b", true}, {"/a/**", "/a", true}, {"/a/**", "/b", false},
		{"/a/**", "/{x}/b", false}, {"/a/**", "/**", false},
		{"/{x}", "/login", true}, {"/*", "/{x}", true}, {"/{x}", "/**", false}, {"/{x}", "/a/b", false},
		{"/**/b", "/a/b", true}, {"/**/b", "/a/c", false}, {"/**/b", "/**/b", true}, {"/**/b", "/**", false},
		{"/**/*.css", "/a/*.css", true}, {"/a/**/b", "/a/x/y/b", true},
		{"/a/**/b", "/a", false}, {"/a/**/a", "/a", false},
	} {
		if got := fitsPath(test.pattern, test.text); got != test.want {
			t.Errorf("%s in %s: got %t, want %t", test.text, test.pattern, got, test.want)
		}
	}
}
