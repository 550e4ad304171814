package keypart_test

import (
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/keypart"
)

var subjects = []string{
	"a", "user:42", "ip:2001:db8::1", "~", "~0000000000000000000000000000000000000000", "%41", "{x}", "\x00\xff", "名前",
	strings.Repeat("x", keypart.Max), strings.Repeat("x", keypart.Max+1), "user:" + strings.Repeat("名", 13), "user:" + strings.Repeat("名", 14),
	strings.Repeat(":", keypart.Max), strings.Repeat("{", keypart.Max/3), strings.Repeat("{", keypart.Max/3+1),
}

// Whoever reads a key finds the subject by its name, however long it is.
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
