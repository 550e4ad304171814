package redisstore

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

func keysOf(t *testing.T, letters string) nameKeys {
	t.Helper()
	var secrets [][]byte
	for _, c := range letters {
		secrets = append(secrets, bytes.Repeat([]byte{byte(c)}, minNameKey))
	}
	return testkit.Must(newNameKeys(secrets))(t)
}

// TestChooseNameKey: processes one after the other, which key the last one uses, and which Redis
// then has in use and as the next one. Each process is written as its keys, the current one first;
// "-" is one without a key, "(b)" a guest, "!" a Redis that loses everything.
func TestChooseNameKey(t *testing.T) {
	for _, test := range []struct{ name, processes, uses, fields string }{
		{"first", "a", "a", "a"},
		{"again", "a a", "a", "a"},
		{"another", "a b", "", "a"},
		{"none", "a -", "", "a"},
		{"none at all", "- a", "a", "a"},
		{"announced", "a ba", "a", "a b"},
		{"during the rotation", "a ba a", "a", "a b"},
		{"a stranger during the rotation", "a ba c", "", "a b"},
		{"the new key alone", "a ba b", "b", "b b"},
		{"those with both follow", "a ba b ba", "b", "b b"},
		{"too late", "a ba b a", "", "b b"},
		{"not announced", "a b", "", "a"},
		{"given up", "a ba a a", "a", "a b"},
		{"back again", "a ba b ab a", "a", "a a"},
		{"two rotations", "a ba b cb c", "c", "c c"},
		{"two at once", "a cba", "a", "a c"},
		{"a rotation left out", "a ba b ca", "", "b b"},
		{"lost before the new key is used", "a ba ! ba", "a", "a b"},
		{"lost after that", "a ba b ! ba b ba", "b", "b b"},
		{"a guest on nothing", "(a)", "a", ""},
		{"a guest with both on nothing", "(ba)", "a", ""},
		{"a guest with both", "a (ba)", "a", "a"},
		{"a guest with the next key", "a ba (b)", "", "a b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			redis := map[string]string{}
			var uses string
			for _, p := range strings.Fields(test.processes) {
				if p == "!" {
					clear(redis)
					continue
				}
				letters := strings.Trim(p, "(-)")
				uses = ""
				for {
					use, field, to, err := keysOf(t, letters).choose(redis, p[0] == '(')
					if (err != nil) != (use == nil && letters != "" || letters == "" && len(redis) > 0) ||
						err != nil && !errors.Is(err, ErrNameKey) {
						t.Fatalf("%s: %v", p, err)
					}
					if use != nil {
						uses = letterOf(t, use.fingerprint)
					}
					if field == "" || p[0] == '(' {
						break
					}
					redis[field] = to
				}
			}
			fields := strings.TrimSpace(letterOf(t, redis[keyInUse]) + " " + letterOf(t, redis[keyNext]))
			if uses != test.uses || fields != test.fields {
				t.Errorf("it uses %q and Redis has %q; want %q and %q", uses, fields, test.uses, test.fields)
			}
		})
	}
}

// letterOf is the letter of the key with a fingerprint.
func letterOf(t *testing.T, fingerprint string) string {
	for _, c := range "abc" {
		if keysOf(t, string(c))[0].fingerprint == fingerprint {
			return string(c)
		}
	}
	return fingerprint
}
