package policy_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/examples/tiers"
	"github.com/stint-limiter/stint/internal/setinfo"
	"github.com/stint-limiter/stint/policy"
)

// everyKind has an identity of every kind, each of which is counted.
const everyKind = `
client_ip: {trusted_proxies: 10.0.0.0/8}
identities:
  apikey: {header: X-API-Key}
  device: {header: X-Device, plain: true, type: dev}
  session: {cookie: sid}
  pair: {all: [user, ip, apikey]}
  idle: {claim: idle}
tiers:
  - {name: users, identity: user, limits: 10/1m}
  - {name: keys, identity: apikey, limits: 10/1m}
  - {name: devices, identity: device, limits: 10/1m}
  - {name: sessions, identity: session, limits: 10/1m}
  - {name: rest, identity: ip, limits: 10/1m}
policies:
  - {name: all, identity: everyone, limits: 100000/1m}
  - {name: pairs, match: {path: /pair}, identity: [pair, ip], limits: 10/1m}
`

// TestNoSubject are texts that name no subject, with the right form.
func TestNoSubject(t *testing.T) {
	set := parse(t, everyKind)
	for text, want := range map[string]string{
		"ip:203.0.113.999":  `invalid address "203.0.…"; want one such as ip:203.0.113.9 or ip:2001:db8::7`,
		"ip:203.0.113":      `invalid address "203.0.…"`,
		"ip:203.0.113.09":   "invalid address",
		"ip:example.com":    "invalid address",
		"ip:\x1b[2J":        `invalid address "\x1b[2J"`,
		"ip:203.0.113.0/24": "203.0.113.0/24 is a network of many subjects; want a single address, such as ip:203.0.113.1. ",
		"ip:203.0.113.9/24": "want a single address, such as ip:203.0.113.9. If a list showed the network, it is a shortened address: use the ref next to it. " +
			"To deny a whole network, write a policy with match: {network: 203.0.113.0/24} and limits: 0/1m",
		"ip:2001:db8:9::/48": "use the ref next to it",
		"ip:::ffff:0:0/96":   "is a network",
		"ip:64:ff9b::/96":    "is a network",
		"ip:64:ff9b::/64":    "is a network",
		"ip:2002::/16":       "is a network",
		"ip:2001:0:1:2::/64": "is a network",
		"ip:":                "no name after ip:; want a subject such as ip:203.0.113.9",
		"user:":              "no name after user:; want a subject such as user:42",
		"user":               "no name after user:",
		"203.0.113.9":        "the address has no kind; want ip: before it",
		"2001:db8::7":        "the address has no kind; want ip: before it",
		// no more of a secret in the wrong place: errors are logged
		"pair:a+sk-live-0123456789+192.0.2.1": `invalid address "sk-liv…"`,
		"pair:a+b":                            "pair has 3 parts, none of them empty; want pair:user+ip+apikey, with %2b for a plus sign within a part",
		"pair:a+192.0.2.1+":                   "pair has 3 parts, none of them empty",
		"pair:+192.0.2.1+k":                   "pair has 3 parts, none of them empty",
		"pair:a+no-address+k":                 `invalid address "no-add…"`,
	} {
		subject, _, err := setinfo.Subject(set, text)
		var invalid *stint.InvalidError
		if subject != "" || !errors.As(err, &invalid) || !strings.Contains(invalid.Err.Error(), want) {
			t.Errorf("%s: got %s, %v; want %s", text, subject, err, want)
		}
	}
	for _, text := range []string{"", "usr:42", "IP:203.0.113.9", "idle:1", "everyone:1", "igdb:other", "nobody"} {
		if subject, _, err := setinfo.Subject(set, text); subject != "" || !errors.Is(err, setinfo.ErrUnknownSubject) {
			t.Errorf("%s: got %s, %v; want that it is not known", text, subject, err)
		}
	}
}

// TestSubject: a written subject is the one under which requests are counted, and stays the same
// when it is written again.
func TestSubject(t *testing.T) {
	w := newWorld(t, everyKind)
	const key, counted = "sk-live-0123456789", "is counted under it"
	long := strings.Repeat("n", 300)
	from := func(address string) policy.Input {
		in := get("/")
		in.Peer = netip.MustParseAddr(address)
		return in
	}
	with := func(field, value string) policy.Input { return getWith("/", http.Header{field: {value}}) }
	user := func(name string) policy.Input { return getAs("/", claims{"user": name}) }
	pair := func(name, address string) policy.Input {
		in := from(address)
		in.Path, in.Claims, in.Header = "/pair", claims{"user": name}, http.Header{"X-Api-Key": {key}}
		return in
	}
	for _, test := range []struct {
		text string
		in   policy.Input
		note string // what it contains
	}{
		{"ip:203.0.113.9", from("203.0.113.9"), ""},
		{"ip:203.0.113.9/32", from("203.0.113.9"), "203.0.113.9/32 is counted under it"},
		{"ip:203.0.113.9:8080", from("203.0.113.9"), "203.0.113.9:8080 is counted under it"},
		{"ip: 203.0.113.9 ", from("203.0.113.9"), ""},
		{"ip:::ffff:203.0.113.9", from("203.0.113.9"), "::ffff:203.0.113.9 is counted under it"},
		{"ip:::FFFF:cb00:7109", from("203.0.113.9"), counted},
		{"ip:64:ff9b::203.0.113.9", from("64:ff9b::cb00:7109"), counted},
		{"ip:203.0.113.9", from("64:ff9b::cb00:7109"), ""},
		{"ip:203.0.113.9", from("::ffff:203.0.113.9"), ""},
		{"ip:2002:cb00:7109:5::1", from("2002:cb00:7109:6::2"), counted},
		{"ip:2002:cb00:7109::/48", from("2002:cb00:7109:6::2"), counted},
		{"ip:2001:db8:9:9::7", from("2001:db8:9:9::8"), "2001:db8:9:9::7 is counted under it"},
		{"ip:2001:DB8:9:9:0:0:0:7", from("2001:db8:9:9::8"), "2001:DB8:9:9:0:0:0:7 is counted under it"},
		{"ip:2001:db8:9:9::/64", from("2001:db8:9:9::8"), ""},
		{"ip:2001:db8:9:9::/64", from("2001:db8:9:9:ffff:ffff:ffff:ffff%eth0"), ""},
		{"ip:2001:db8:9:9::7/64", from("2001:db8:9:9::8"), counted},
		{"ip:2001:db8:9:9:8000::/65", from("2001:db8:9:9::8"), counted},
		{"ip:[2001:db8:9:9::7]:443", from("2001:db8:9:9::8"), counted},
		{"ip:[2001:db8:9:9::7]", from("2001:db8:9:9::8"), counted},
		{"ip:fe80::1%eth0", from("fe80::1%eth0"), counted},
		{"ip:unknown", policy.Input{Method: "GET", Path: "/"}, ""},
		{"user:42", user("42"), ""},
		{"user:a+b%c:d/e", user("a+b%c:d/e"), ""},
		{"user:" + long, user(long), "more than 256 bytes"},
		{"apikey:" + key, with("X-Api-Key", key), "the hash of the given value of X-Api-Key"},
		{"dev:Pixel 9", with("X-Device", "Pixel 9"), ""},
		{"session:abc", with("Cookie", "sid=abc"), "the hash of the given value of sid"},
		{"everyone", get("/"), ""},
		{"pair:a%2bb%25+2001:DB8::1+" + key, pair("a+b%", "2001:db8::2"), "is counted under it, it is the hash"},
		{"pair:50%+203.0.113.9+" + key, pair("50%", "203.0.113.9"), "the hash"},
	} {
		subject, note, err := setinfo.Subject(w.Set(), test.text)
		if err != nil || !strings.Contains(note, test.note) || test.note == "" && note != "" {
			t.Errorf("%s: the note is %q, want %q; error %v", test.text, note, test.note, err)
			continue
		}
		charge := w.judge(test.in).Decision.Charge
		if !slices.ContainsFunc(charge.Claims(), func(c stint.Claim) bool { return c.Subject == subject }) {
			t.Errorf("%s: got %s, which counts no request of that subject", test.text, subject)
		}
		if again, _, err := setinfo.Subject(w.Set(), subject); again != subject || err != nil {
			t.Errorf("%s: got %s, and for that %s, %v", test.text, subject, again, err)
		}
	}
	hash, _, _ := setinfo.Subject(w.Set(), "apikey:"+key)
	ofKey, _, _ := setinfo.Subject(w.Set(), "apikey:"+strings.ToUpper(strings.TrimPrefix(hash, "apikey:")))
	_, note, err := setinfo.Subject(w.Set(), hash)
	if want := "taken as the hash of a value of X-Api-Key; if it is the value itself, its hash is "; err != nil ||
		!strings.HasPrefix(note, want) || ofKey == hash {
		t.Errorf("got %q, %v; want %q", note, err, want)
	}
}

// TestPlacesAreWhereRequestsAreCounted: every claim of a request is at one of its subject's places,
// or where that place is divided.
func TestPlacesAreWhereRequestsAreCounted(t *testing.T) {
	for name, config := range map[string]string{"example": string(tiers.YAML), "divided": dividedConfig} {
		w := newWorld(t, config)
		for _, method := range []string{"GET", "HEAD", "POST", "BREW", "MILK"} {
			for _, path := range []string{"/", "/login", "/api/simulation/start", "/api/simulation/7/frames", "/api/pdb/1", "/items/9"} {
				for _, host := range []string{"a.example", "b.example:8080", "elsewhere"} {
					for _, header := range []http.Header{
						{}, {"X-User-Id": {"42"}}, {"X-User-Id": {"42"}, "X-User-Plan": {"pro"}},
						{"X-Service": {"cron"}}, {"X-Session-Id": {"s"}}, {"X-Fingerprint": {"f"}}, {"X-Tenant": {"t"}}} {
						in := policy.Input{Method: method, Host: host, Path: path, Peer: netip.MustParseAddr("127.0.0.1"), Header: header}
						for _, r := range w.judge(in).Results {
							if !r.Shadow && !slices.ContainsFunc(setinfo.Counts(w.Set(), r.Subject), func(p setinfo.Count) bool {
								return p.Rule == r.Rule && !p.Shadow &&
									(p.Scope == r.Scope || p.Divided && strings.HasPrefix(r.Scope, p.Scope+":"))
							}) {
								t.Errorf("%s: %s %s%s: no place for %q under %s", name, method, host, path, r.Key(), r.Rule.Name())
							}
						}
					}
				}
			}
		}
	}
}

// FuzzSubject: whatever is a subject is the same one again.
func FuzzSubject(f *testing.F) {
	set := parse(f, everyKind)
	for _, text := range []string{
		"ip:203.0.113.9", "ip:2001:db8::7/64", "ip:[::1%eth0]:80", "ip:64:ff9b:1::1.2.3.4", "ip:2002:102:304::/48",
		"ip:2001::fefd:fcfb",
		"user:a+%2b", "apikey:x", "pair:a%2b+::1+k", "everyone", "igdb:api",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		subject, _, err := setinfo.Subject(set, text)
		if err != nil {
			return
		}
		if len(setinfo.Counts(set, subject)) == 0 && subject != "igdb:api" {
			t.Errorf("%q: %q is counted nowhere", text, subject)
		}
		if again, _, err := setinfo.Subject(set, subject); again != subject || err != nil {
			t.Errorf("%q: got %q, and for that %q, %v", text, subject, again, err)
		}
	})
}

// placesText tells places in a word each: tier/policy@scope, with a mark for costs, divisions and
// shadow.
func placesText(places []setinfo.Count) []string {
	var words []string
	for _, p := range places {
		word := p.Rule.Tier + "/" + p.Rule.Policy + "@" + p.Scope
		if p.Rule.Costs {
			word += "$"
		}
		if p.Divided {
			word += "*"
		}
		if p.Shadow {
			word += "?"
		}
		words = append(words, word)
	}
	return words
}

const dividedConfig = `
identities:
  tenant: {header: X-Tenant, plain: true}
tiers:
  - {name: all, identity: ip, limits: 10/1m}
policies:
  - {name: ceiling, identity: everyone, limits: 1000/1s}
  - {name: verbs, per: method, limits: 5/1m}
  - {name: reads, match: {method: [GET, BREW]}, per: [method, route], limits: 5/1m}
  - {name: sites, match: {host: [a.example, b.example]}, per: host, limits: 5/1m}
  - {name: wild, match: {host: "*.example"}, per: host, limits: 5/1m}
  - {name: item, match: {path: "/items/{id}"}, per: [id], limits: 5/1m}
  - {name: trial, shadow: true, limits: 5/1m}
  - {name: half, rollout: 50%, identity: [tenant, ip], limits: 5/1m}
`

func TestPlacesThatAreDivided(t *testing.T) {
	set := parse(t, dividedConfig)
	want := strings.Fields(`all/@global
		all/verbs@verbs:GET all/verbs@verbs:HEAD all/verbs@verbs:POST all/verbs@verbs:PUT all/verbs@verbs:PATCH
		all/verbs@verbs:DELETE all/verbs@verbs:OPTIONS all/verbs@verbs:CONNECT all/verbs@verbs:TRACE all/verbs@verbs:other
		all/reads@reads:GET:reads all/reads@reads:HEAD:reads all/reads@reads:other:reads
		all/sites@sites:a.example all/sites@sites:b.example
		all/wild@wild* all/item@item* all/trial@trial?`)
	got := placesText(setinfo.Counts(set, "ip:192.0.2.1"))
	if last := len(got) - 1; !slices.Equal(got[:last], want) || !strings.HasPrefix(got[last], "all/half@half") {
		t.Errorf("got %q\nwant %q and half", got, want)
	}
	if got, want := placesText(setinfo.Counts(set, "everyone")), []string{
		"all/ceiling@ceiling"}; !slices.Equal(got, want) {
		t.Errorf("everyone: got %q, want %q", got, want)
	}
	shadowed := 0
	for i := range 1000 {
		places := setinfo.Counts(set, fmt.Sprint("tenant:", i))
		if len(places) != 1 || places[0].Rule.Policy != "half" {
			t.Fatalf("tenant: got %q, want half alone", placesText(places))
		}
		if places[0].Shadow {
			shadowed++
		}
	}
	if shadowed < 400 || shadowed > 600 {
		t.Errorf("half is in shadow for %d of 1000 tenants, want about half", shadowed)
	}
}
