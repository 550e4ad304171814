package redisstore

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/keypart"
)

// hostile are parts that a careless codec would confuse with one another or let choose the slot.
var hostile = []string{
	"a", "a:b", "b", "b:c", "c", ":", "::", "a:", ":a", "{x}", "{", "}", "{}", "}{", "a}:{b", "%", "%3A", "%25", "~",
	"~0000000000000000000000000000000000000000", "\r\n", "\x00", "\x00\x00", "\xff\xfe", "é", "e\u0301", " ", "a b",
	"A", strings.Repeat("x", keypart.Max), strings.Repeat("x", keypart.Max+1), strings.Repeat("x", 10_000),
	strings.Repeat("x", 9_999) + "y", strings.Repeat("{", 60),
}

// callOfTests is a call that is not sent.
func callOfTests(n *names) *scriptCall {
	s := &Store{prefix: "stint", clock: newServerClock()}
	return &scriptCall{store: s, id: 7, names: n}
}

// Keys are distinct, of bounded length and of plain ASCII, and have one hash tag, made of the subject
// alone, also if names are hashed and others look like hashes.
func TestKeysAreDistinctAndInTheirSlot(t *testing.T) {
	hashing := newNames(bytes.Repeat([]byte{'a'}, minNameKey))
	shown := string(hashing.appendSubject(nil, "user:1"))
	subjects := append([]string{shown, "user:1", "#" + shown, "user:" + shown, shown + "x", "user#"}, hostile...)
	scopes := append([]string{"", "login:" + shown, "login:1", "login%3A1"}, hostile...)
	for _, n := range []*names{nil, hashing} {
		seen := map[string][2]string{}
		for _, subject := range subjects {
			want := string(keypart.Append(nil, subject, true))
			for _, scope := range scopes {
				c := callOfTests(n)
				key := string(c.beginKey(nil, subject, scope)) + stateKey
				if was, dup := seen[key]; dup {
					t.Errorf("%q in %q and %q in %q share the key %s", subject, scope, was[0], was[1], key)
				}
				seen[key] = [2]string{subject, scope}
				tag, rest, _ := strings.Cut(strings.TrimPrefix(key, "stint:{"), "}:")
				if n == nil && tag != want || n != nil && !keypart.IsHashed(tag) || strings.ContainsAny(tag+rest, "{}") {
					t.Errorf("key %q of %q: the hash tag is not the subject", key, subject)
				}
				if len(key) > 2*keypart.Max+64 || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
					t.Errorf("key %q of %q", key, subject)
				}
				if ban := string(c.beginKey(nil, subject, "")) + banKey; ban != "stint:{"+tag+"}:ban" {
					t.Errorf("%q is %q in one key and %q in another", subject, tag, ban)
				}
			}
		}
	}
}

func TestReadableKeysStayReadable(t *testing.T) {
	limits, named, places := stint.PerMinute(100), stint.PerMinute(5).WithName("login"), stint.Concurrency(2, time.Minute)
	for _, test := range []struct {
		subject, scope string
		limit          stint.Limit
		want           string
	}{
		{"user:42", "", limits, "stint:{user:42}:limits"},
		{"ip:2001:db8::1", "global", limits, "stint:{ip:2001:db8::1}:global:limits"},
		{"user:42", "/api/search", limits, "stint:{user:42}:/api/search:limits"},
		{"user:ann@example.org", "GET /x", limits, "stint:{user:ann@example.org}:GET%20/x:limits"},
		{"user:42", "", named, "stint:{user:42}:limits/login"},
		{"user:42", "", places, "stint:{user:42}:concurrency/1m"},
	} {
		c := callOfTests(nil)
		claim := stint.Claim{Subject: test.subject, Scope: test.scope, Limits: []stint.Limit{test.limit}}
		c.partKey(&c.divide([]stint.Claim{claim}, 0)[0])
		if got := string(c.keyText); got != test.want {
			t.Errorf("%q in %q: key %s, want %s", test.subject, test.scope, got, test.want)
		}
	}
}

func FuzzCodec(f *testing.F) {
	for _, part := range hostile {
		f.Add(part, true)
		f.Add(part, false)
	}
	f.Fuzz(func(t *testing.T, part string, colons bool) {
		got := string(keypart.Append(nil, part, colons))
		if len(got) > keypart.Max || strings.ContainsAny(got, "{}") || !colons && strings.Contains(got, ":") {
			t.Fatalf("%q became %q", part, got)
		}
		if strings.HasPrefix(got, string(keypart.HashMark)) {
			if len(got) != 41 || len(part) <= keypart.Max/3 {
				t.Fatalf("%q became the hash %q", part, got)
			}
			return
		}
		if back, ok := keypart.Read(got); part != "" && (!ok || back != part) {
			t.Fatalf("%q became %q, which reads as %q", part, got, back)
		}
	})
}
