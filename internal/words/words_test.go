package words_test

import (
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/words"
)

func TestWords(t *testing.T) {
	for _, test := range []struct {
		s           string
		name, token bool
	}{
		{"", false, false},
		{"igdb", true, true},
		{"Steam-2_web.v1", true, true},
		{"-", true, true},
		{".", true, true},
		{strings.Repeat("a", 1000), true, true},
		{"X-API-Key", true, true},
		{"M-SEARCH", true, true},
		{"a!b", false, true},
		{"!#$%&'*+-.^_`|~", false, true},
		{"a b", false, false},
		{" a", false, false},
		{"a:b", false, false},
		{"a/b", false, false},
		{"a@b", false, false},
		{"a{b}", false, false},
		{"(a)", false, false},
		{`a"`, false, false},
		{"a,b", false, false},
		{"a\n", false, false},
		{"a\x00", false, false},
		{"a\x7f", false, false},
		{"é", false, false},
		{"\xff", false, false},
	} {
		if name, token := words.IsName(test.s), words.IsToken(test.s); name != test.name || token != test.token {
			t.Errorf("%q: name %v, token %v; want %v, %v", test.s, name, token, test.name, test.token)
		}
	}
}

// Every byte by itself: a table of what is what.
func TestBytes(t *testing.T) {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	for c := range 256 {
		s := string([]byte{byte(c)})
		if got, want := words.IsName(s), strings.Contains(letters+"_-.", s); got != want {
			t.Errorf("%q: name %v, want %v", s, got, want)
		}
		if got, want := words.IsToken(s), strings.Contains(letters+"!#$%&'*+-.^_`|~", s); got != want {
			t.Errorf("%q: token %v, want %v", s, got, want)
		}
	}
}

func TestHost(t *testing.T) {
	for hostport, want := range map[string]string{
		"": "", "example.com": "example.com", "example.com.:8080": "example.com", "[::1]:80": "::1", "[::1]": "::1", "::1": "::1", ":80": "",
	} {
		if got := words.Host(hostport); got != want {
			t.Errorf("%q: got %q, want %q", hostport, got, want)
		}
	}
}
