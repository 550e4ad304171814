package keypart_test

import (
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/keypart"
)

var subjects = []string{
	"a", "user:42", "ip:2001:db8::1", "~", "~0000000000000000000000000000000000000000", "%41", "{x}", "\x00\xff", "名前",
	strings.Repeat("x", keypart.Max), strings.Repeat("x", keypart.Max+1), "user:" + strings.Repeat("名", 13),
	"user:" + strings.Repeat("名", 14),
	strings.Repeat(":", keypart.Max), strings.Repeat("{", keypart.Max/3), strings.Repeat("{", keypart.Max/3+1),
}

// A key has the name of its subject, however long it is.
func TestNameIsWhatKeysTell(t *testing.T) {
	for _, subject := range subjects {
		checkName(t, subject)
	}
	if keypart.Name("user:"+strings.Repeat("名", 15)) == keypart.Name("user:"+strings.Repeat("名", 16)) {
		t.Error("two long subjects have one name")
	}
}

func FuzzName(f *testing.F) {
	for _, subject := range subjects {
		f.Add(subject)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		if subject != "" {
			checkName(t, subject)
		}
	})
}

func checkName(t *testing.T, subject string) {
	t.Helper()
	name := keypart.Name(subject)
	if read, ok := keypart.ReadName(string(keypart.Append(nil, subject, true))); !ok || read != name {
		t.Errorf("%q is written as the key of %q (%v); want its name %q", subject, read, ok, name)
	}
	if again := keypart.Name(name); again != name {
		t.Errorf("%q has the name %q, and that %q", subject, name, again)
	}
}

func TestKinds(t *testing.T) {
	for subject, want := range map[string]string{
		"user:42": "user", "x-api-key:1": "x-api-key", "ip:2001:db8::1": "ip", "a.b_c:1": "a.b_c", "everyone": "",
		":x": "", "": "",
		"jane@example.com:1": "", "a b:1": "", "\x00everyone": "",
		strings.Repeat("k", 64) + ":1": strings.Repeat("k", 64), strings.Repeat("k", 65) + ":1": "",
	} {
		if got := keypart.Kind(subject); got != want {
			t.Errorf("%q: kind %q, want %q", subject, got, want)
		}
	}
}

func TestIsHashed(t *testing.T) {
	sum := string(keypart.AppendSum(nil, keypart.Sum{15: 3}))
	for subject, want := range map[string]bool{
		sum: true, "user" + sum: true, "x-api-key" + sum: true, "ip" + sum: true, "user:1": false, "user#": false,
		"user" + sum + "x": false,
		"user:" + sum:      false, ":" + sum: false, "a:b" + sum: false, "a b" + sum: false, "user#" + sum: false,
		"user" + sum[1:]:          false,
		"user" + sum[:len(sum)-1]: false, "user" + sum[:len(sum)-1] + "B": false,
		"user" + sum[:5] + "+" + sum[6:]: false, "": false,
	} {
		if got := keypart.IsHashed(subject); got != want {
			t.Errorf("%q: %t, want %t", subject, got, want)
		}
	}
}
