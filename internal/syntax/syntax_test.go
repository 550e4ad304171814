package syntax_test

import (
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/syntax"
)

func TestWords(t *testing.T) {
	for _, test := range []struct {
		s           string
		name, token bool
	}{
		{"", false, false},
		{"Steam-2_web.v1", true, true},
		{strings.Repeat("a", 1000), true, true},
		{"a!b", false, true},
		{"a\n", false, false},
	} {
		if name, token := syntax.IsName(test.s), syntax.IsToken(test.s); name != test.name || token != test.token {
			t.Errorf("%q: name %v, token %v; want %v, %v", test.s, name, token, test.name, test.token)
		}
	}
}

// Every byte by itself: a table of what is what.
func TestBytes(t *testing.T) {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	for c := range 256 {
		s := string([]byte{byte(c)})
		if got, want := syntax.IsName(s), strings.Contains(letters+"_-.", s); got != want {
			t.Errorf("%q: name %v, want %v", s, got, want)
		}
		if got, want := syntax.IsToken(s), strings.Contains(letters+"!#$%&'*+-.^_`|~", s); got != want {
			t.Errorf("%q: token %v, want %v", s, got, want)
		}
	}
}

func TestHost(t *testing.T) {
	for hostport, want := range map[string]string{
		"": "", "example.com": "example.com", "example.com.:8080": "example.com", "[::1]:80": "::1", "[::1]": "::1",
		"::1": "::1", ":80": "",
		"example.com..": "example.com", "example.com:": "example.com", "example.com:80:80": "example.com",
		"fe80::1%eth0": "fe80::1%eth0",
	} {
		if got := syntax.Host(hostport); got != want {
			t.Errorf("%q: got %q, want %q", hostport, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for _, test := range []struct {
		text string
		want int64 // 0 is an error
	}{
		{"1", 1},
		{"1024", 1024},
		{"2B", 2},
		{"64KB", 64_000},
		{"64KiB", 64 << 10},
		{"10MB", 10_000_000},
		{"256MiB", 256 << 20},
		{"1GB", 1_000_000_000},
		{"4GiB", 4 << 30},
		{"9007199254740992", 1 << 53},
		{"9007199254740993", 0},
		{"8388609GiB", 0},
		{"99999999999999999999", 0},
		{"", 0},
		{"0", 0},
		{"-1", 0},
		{"1.5GiB", 0},
		{"1 MiB", 0},
		{"1mib", 0},
		{"MiB", 0},
		{"1MiBKB", 0},
	} {
		got, err := syntax.Size(test.text)
		if got != test.want || (err == nil) != (test.want != 0) {
			t.Errorf("%q: got %d, %v; want %d", test.text, got, err, test.want)
		}
	}
}
