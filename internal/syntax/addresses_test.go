package syntax_test

import (
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/syntax"
)

func TestContact(t *testing.T) {
	for text, isURL := range map[string]bool{
		"":                                    false,
		"Ask Ann":                             false,
		"Ann":                                 false,
		"help@example.com":                    false,
		"More: help@example.com":              false,
		"Schreiben Sie an Ännchen":            false,
		"see https://example.com":             false,
		"https://example.com/a?b=c&d=e#f":     true,
		"http://[2001:db8::1]:8080/":          true,
		"mailto:help@example.com?subject=429": true,
		strings.Repeat("x", 256):              false,
	} {
		if wrong := syntax.WrongContact(text); wrong != "" || syntax.IsContactURL(text) != isURL {
			t.Errorf("%q: got %q and %t, want %t", text, wrong, syntax.IsContactURL(text), isURL)
		}
	}
	for text, want := range map[string]string{
		strings.Repeat("x", 257):          "257 bytes",
		"a\r\nSet-Cookie: b":              "cannot be printed",
		"a\tb":                            "cannot be printed",
		"a\x00":                           "cannot be printed",
		"a\x7f":                           "cannot be printed",
		"a\u202eb":                        "cannot be printed",
		"\xff":                            "cannot be printed",
		" Ask Ann":                        "a space",
		"Ask Ann ":                        "a space",
		"javascript:alert(1)":             "unsupported scheme",
		"JavaScript:alert(1)":             "unsupported scheme",
		"data:text/html,x":                "unsupported scheme",
		"ftp://example.com":               "unsupported scheme",
		"tel:+15551234":                   "unsupported scheme",
		"example.com:8080/help":           "unsupported scheme",
		"https://":                        "is not a URL",
		"https:example.com":               "is not a URL",
		"https://ann:secret@example.com/": "is not a URL",
		"https://example.com/%zz":         "is not a URL",
		"mailto:ann":                      "is not a URL",
	} {
		if got := syntax.WrongContact(text); !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q in it", text, got, want)
		}
	}
}

func TestWrongWebhook(t *testing.T) {
	for _, good := range []string{"https://example.com", "https://example.com/a?token=b", "http://localhost:9000/a",
		"http://127.0.0.1", "http://[::1]:80/"} {
		if wrong := syntax.WrongWebhook(good); wrong != "" {
			t.Errorf("%s: %s", good, wrong)
		}
	}
	for _, bad := range []string{"", "example.com", "ftp://example.com", "https://", "http://example.com",
		"http://localhost.example.com", "http://10.0.0.1", "http://0.0.0.0", "://"} {
		if syntax.WrongWebhook(bad) == "" {
			t.Errorf("%q: nothing is wrong", bad)
		}
	}
}
