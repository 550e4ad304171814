package redisstore

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/keypart"
)

func keysOf(t testing.TB, letters string) nameKeys {
	t.Helper()
	var secrets [][]byte
	for _, c := range letters {
		secrets = append(secrets, bytes.Repeat([]byte{byte(c)}, minNameKey))
	}
	keys, err := newNameKeys(secrets)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// redisOf is the entries as changes leave them.
type redisOf map[string]string

func (r redisOf) apply(c *namesChange) {
	if c == nil {
		return
	}
	if c.set != "" {
		r[c.set] = c.to
	}
	for _, field := range c.remove {
		delete(r, field)
	}
}

// TestSettle: processes one after the other, and which keys Redis knows afterwards. Each process is
// written as its keys, the current one first, and in capitals if it has been running since it was
// first there.
func TestSettle(t *testing.T) {
	for _, test := range []struct {
		// "-" is one without a key, "!" a Redis that loses everything, "<" one that goes back a
		// step
		name, processes string
		want            string // the keys that Redis knows, or that the last process is refused
	}{
		{"first", "a", "a"},
		{"again", "a a", "a"},
		{"another", "a b", "refused"},
		{"none", "a -", "refused"},
		{"none at all", "- -", ""},
		{"rotation", "a ba", "a b"},
		{"during the rotation", "a ba a", "a b"},
		{"after it", "a ba b", "b"},
		{"too late", "a ba b a", "refused"},
		{"back again", "a ba ab", "a b"},
		{"back for good", "a ba ab a", "a b"}, // the newer one is not known to be of no use
		{"two rotations", "a ba cb c", "c"},
		{"a rotation left out", "a ba b ca", "refused"},
		{"lost", "a ba b ! B", "b"},
		{"lost by all", "a ba b ! b", "b"},
		{"lost to another", "a ba b ! c B", "refused"},
		{"still running", "a ba b A", "b"},
		{"an old copy", "a ba < B", "refused"},
		{"an old copy of the same", "a ba b < < B", "a b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			redis, before := redisOf{}, []redisOf{}
			running := map[string]dataKey{}
			var data, first []byte
			var err error
			for _, p := range strings.Fields(test.processes) {
				before = append(before, redisOf{})
				for k, v := range redis {
					before[len(before)-1][k] = v
				}
				switch p {
				case "!":
					clear(redis)
					first = nil
					continue
				case "<":
					redis, before = before[len(before)-2], before[:len(before)-2]
					continue
				case "-":
					_, _, err = nameKeys(nil).settle(redis, dataKey{})
					continue
				}
				used := dataKey{}
				if own := strings.ToLower(p); own != p {
					used, p = running[own], own
				}
				var now dataKey
				var change *namesChange
				if now, change, err = keysOf(t, p).settle(redis, used); err != nil {
					continue
				}
				redis.apply(change)
				running[p], data = now, now.key
				if first == nil {
					first = data
				}
				if !bytes.Equal(first, data) {
					t.Errorf("%s uses another data key", p)
				}
			}
			if errors.Is(err, ErrNameKey) {
				if test.want != "refused" {
					t.Fatal(err)
				}
				return
			}
			var known []string
			for _, c := range "abc" {
				if text, ok := redis[keysOf(t, string(c))[0].fingerprint]; ok {
					known = append(known, string(c))
					if opened, err := keysOf(t, string(c))[0].open(text); err != nil || !bytes.Equal(opened, data) {
						t.Errorf("%c opens another data key: %v", c, err)
					}
				}
			}
			if got := strings.Join(known, " "); got != test.want {
				t.Errorf("Redis knows %q, want %q", got, test.want)
			}
		})
	}
}

// TestOldKey: after a rotation the old key tells nothing, not even which hashes it would lead to in
// a Redis of its own.
func TestOldKey(t *testing.T) {
	redis := redisOf{}
	used, change, err := keysOf(t, "a").settle(redis, dataKey{})
	if err != nil {
		t.Fatal(err)
	}
	redis.apply(change)
	anew, _, err := keysOf(t, "a").settle(redisOf{}, dataKey{})
	if err != nil || bytes.Equal(used.key, anew.key) {
		t.Errorf("the data key follows from the name key (%v)", err)
	}
	for _, p := range []string{"ba", "b"} {
		now, change, err := keysOf(t, p).settle(redis, dataKey{})
		if err != nil || !bytes.Equal(now.key, used.key) {
			t.Fatalf("%s: another data key, %v", p, err)
		}
		redis.apply(change)
	}
	for field, text := range redis {
		if key, err := keysOf(t, "a")[0].open(text); err == nil {
			t.Errorf("the old key opens %s: %x", field, key)
		}
	}
}

// TestDamagedEntry is refused, and what is not ours does no harm.
func TestDamagedEntry(t *testing.T) {
	keys := keysOf(t, "a")
	redis := redisOf{}
	_, change, err := keys.settle(redis, dataKey{})
	if err != nil {
		t.Fatal(err)
	}
	redis.apply(change)
	redis["comment"] = "ours"
	if _, _, err := keys.settle(redis, dataKey{}); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "x", "1", strings.Replace(change.to, " ", "  ", 1) + "x",
		change.to[:len(change.to)-2], strings.ToUpper(change.to)} {
		redis[keys[0].fingerprint] = text
		if _, _, err := keys.settle(redis, dataKey{}); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if text := fmt.Sprint(change); strings.Contains(text, "aaaa") {
		t.Error("the key is in the entry")
	}
}

// TestHashedKeys: hashed keys are as distinct as others, have one hash tag and the same shape.
func TestHashedKeys(t *testing.T) {
	n := newNames(dataKey{key: newDataKey()})
	shown := string(n.appendSubject(nil, "user:1"))
	seen := map[string][2]string{}
	for _, subject := range append(
		[]string{shown, "user:1", "#" + shown, "user:" + shown, shown + "x", "user#"}, hostile...) {
		for _, scope := range append([]string{"", "login:" + shown, "login:1", "login%3A1"}, hostile...) {
			k := keys{prefix: "stint", names: n}
			k.inScope(subject, scope, "sliding/1m")
			k.inScope(subject, "", "ban")
			key := k.strings()[0]
			if was, dup := seen[key]; dup {
				t.Errorf("%q in %q and %q in %q share the key %s", subject, scope, was[0], was[1], key)
			}
			seen[key] = [2]string{subject, scope}
			tag, rest, _ := strings.Cut(strings.TrimPrefix(key, "stint:{"), "}:")
			if !keypart.IsHashed(tag) || strings.ContainsAny(tag+rest, "{} ") || len(key) > 2*keypart.Max+64 {
				t.Errorf("key %q of %q", key, subject)
			}
			if ban := k.strings()[1]; ban != "stint:{"+tag+"}:ban" {
				t.Errorf("%q is %q in one key and %q in another", subject, tag, ban)
			}
		}
	}
}

// TestRefusedNames: the answer to a call may come when names are refused already.
func TestRefusedNames(t *testing.T) {
	s := &Store{prefix: "stint"}
	s.names.Store(refusedNames(dataKey{key: newDataKey()}, ErrNameKey))
	if _, err := s.newKeys(); !errors.Is(err, ErrNameKey) {
		t.Errorf("%v, want ErrNameKey", err)
	}
	n := s.names.Load()
	n.note(&stint.Request{Claims: []stint.Claim{{Subject: "user:1"}}}, &stint.Decision{})
	if got := n.recall(string(n.appendSubject(nil, "user:1"))); got != "user:1" {
		t.Errorf("%q, want user:1", got)
	}
}

func BenchmarkNames(b *testing.B) {
	r := stint.Request{Claims: []stint.Claim{{Subject: "user:jane.doe@example.com",
		Limits: []stint.Limit{stint.PerMinute(10)}, Cost: 1}}, Bans: &stint.BanPolicy{}}
	for name, n := range map[string]*names{"clear": nil, "hashed": newNames(dataKey{key: newDataKey()})} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			parts := partsOf(nil, r.Claims)
			for b.Loop() {
				k := keys{prefix: "stint", names: n, buf: make([]byte, 0, 64), ends: make([]int, 0, 4)}
				k.ofRequest(&r, parts)
				_ = k.strings()
			}
		})
	}
	b.Run("sum", func(b *testing.B) {
		b.ReportAllocs()
		n := newNames(dataKey{key: newDataKey()})
		for b.Loop() {
			n.sum(ofSubject, r.Claims[0].Subject)
		}
	})
}
