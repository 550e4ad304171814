package policy_test

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
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
