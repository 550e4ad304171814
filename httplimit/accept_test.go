package httplimit

import (
	"strings"
	"testing"
)

var acceptTests = []struct {
	accept string // lines
	want   format
}{
	{"", formatJSON},
	{"*/*", formatJSON},
	{"application/json", formatJSON},
	{"APPLICATION/Problem+JSON", formatProblem},
	{"text/plain", formatPlain},
	{"text/*", formatPlain},
	{"application/*", formatJSON},
	{"text/html", formatJSON},
	{"text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8", formatJSON}, // browsers
	{"application/json, text/plain, */*", formatJSON},
	{"text/plain, application/json", formatJSON},
	{"application/problem+json, */*", formatProblem},
	{"application/problem+json, application/json;q=0.9", formatProblem},
	{"application/json;q=0.5, application/problem+json;q=0.501", formatProblem},
	{"application/json;q=0.1, text/plain;q=0.2, */*;q=0", formatPlain},
	{"*/*, application/json;q=0", formatProblem},
	{"*/*, application/*;q=0", formatPlain},
	{"*/*;q=0", formatJSON},
	{"application/json;q=0", formatJSON},
	{"text/plain;q=1.0", formatPlain},
	{"text/plain;q=1.001", formatJSON},
	{"text/plain;q=2", formatJSON},
	{"text/plain;q=-1", formatJSON},
	{"text/plain;q=", formatJSON},
	{"text/plain;q=0.1234", formatJSON},
	{"text/plain ; charset=utf-8 ; Q=0.7", formatPlain},
	{`text/plain;x="a,b;q=0";q=0.7`, formatPlain},
	{`text/plain;x="\"", application/json;q=0.1`, formatPlain},
	{`text/plain;x="unclosed, application/json`, formatPlain},
	{"text/plain\napplication/json;q=0.1", formatPlain},
	{"application/json;q=0.1\ntext/plain", formatPlain},
	{",, ,text/plain,,", formatPlain},
	{"/, */, /*, text, ;q=1", formatJSON},
	{"*/plain", formatJSON},
	{strings.Repeat("image/png, ", 1000) + "text/plain", formatJSON}, // past what is looked at
}

func TestAccept(t *testing.T) {
	for _, c := range acceptTests {
		if got := negotiate(lines(c.accept)); got != c.want {
			t.Errorf("%q: got %v, want %v", c.accept, contentTypes[got], contentTypes[c.want])
		}
	}
}

func lines(accept string) []string {
	if accept == "" {
		return nil
	}
	return strings.Split(accept, "\n")
}

// FuzzAccept looks for headers that break the choice, or that have something chosen that they do
// not allow.
func FuzzAccept(f *testing.F) {
	for _, c := range acceptTests {
		f.Add(c.accept)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		got := negotiate(lines(accept))
		if got >= formats {
			t.Fatalf("got %d", got)
		}
		lower := strings.ToLower(accept)
		if got == formatProblem && !strings.Contains(lower, "problem+json") && !strings.Contains(lower, "*") {
			t.Errorf("a problem for %q", accept)
		}
		if got == formatPlain && !strings.Contains(lower, "text/") && !strings.Contains(lower, "*/*") {
			t.Errorf("plain text for %q", accept)
		}
		if again := negotiate(lines(accept)); again != got {
			t.Errorf("%q: got %d, then %d", accept, got, again)
		}
		// A client that also rejects all other formats gets plain text, unless the header is too long.
		if len(accept) < maxAccept/2 && !strings.ContainsAny(accept, `"`) {
			only := negotiate([]string{"text/plain", accept + ", application/problem+json;q=0, application/json;q=0"})
			if only != formatPlain && !strings.Contains(lower, "json") && !strings.Contains(lower, "plain") {
				t.Errorf("%q and plain text only: got %v", accept, contentTypes[only])
			}
		}
	})
}
