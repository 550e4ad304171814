package callers_test

import (
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/callers"
)

const (
	first  = "first-token-of-tests"
	second = "second:token-of-tests"
	third  = "third-token-of-tests"
)

func TestHolder(t *testing.T) {
	tokens, err := callers.ParseTokens(
		"/etc/tokens", []byte("# three of them\n\nalice: "+first+"\r\n  "+second+"  \nalice (read):  "+third), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		fields []string
		want   string // "" is nobody
		role   callers.Role
	}{
		{[]string{"Bearer " + first}, "alice", callers.Operate},
		{[]string{"bearer " + second}, "line 4 of tokens", callers.Operate},
		{[]string{"BEARER  " + third + " "}, "alice", callers.Read},
		{nil, "", ""},
		{[]string{""}, "", ""},
		{[]string{"Bearer"}, "", ""},
		{[]string{"Bearer "}, "", ""},
		{[]string{first}, "", ""},
		{[]string{"Basic " + first}, "", ""},
		{[]string{"Bearer " + first[:10]}, "", ""},
		{[]string{"Bearer " + first + "x"}, "", ""},
		{[]string{"Bearer " + first + " " + second}, "", ""},
		{[]string{"Bearer " + first + ", Bearer " + second}, "", ""},
		{[]string{"Bearer alice: " + first}, "", ""},
		{[]string{"Bearer " + first, "Bearer " + first}, "", ""},
	} {
		if got, ok := tokens.Holder(test.fields); got != (callers.Holder{Name: test.want, Role: test.role}) ||
			ok != (test.want != "") {
			t.Errorf("%q: got %+v, %t; want %q, %q", test.fields, got, ok, test.want, test.role)
		}
	}
}

func TestTokenMistakes(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", `tokens: no tokens; want one per line`},
		{first + "\nhunter2", `tokens:2: a token of 7 bytes can be guessed; want at least 16, such as the output of openssl rand -hex 24`},
		{"bob: hunter2", `tokens:1: a token of 7 bytes can be guessed; want at least 16, such as the output of openssl rand -hex 24`},
		{"a token with spaces in it", `tokens:1: not a token; want one per line, of printable ASCII without spaces`},
		{"bob: " + first + " " + second, `tokens:1: not a token; want one per line, of printable ASCII without spaces`},
		{"tökens-of-sixteen", `tokens:1: not a token; want one per line, of printable ASCII without spaces`},
		{"bob the builder: " + first, `tokens:1: the text before the colon is not a name; want at most 64 letters, digits and _-.`},
		{strings.Repeat("b", 65) + ": " + first, `tokens:1: the text before the colon is not a name; want at most 64 letters, digits and _-.`},
		{"bob(read): " + first, `tokens:1: the text before the colon is not a name; want at most 64 letters, digits and _-.`},
		{"bob (reed): " + first, `tokens:1: unknown role; want (read) or (operate)`},
		{"(read): " + first, `tokens:1: the text before the colon is not a name; want at most 64 letters, digits and _-.`},
		{"bob (read) (operate): " + first, `tokens:1: unknown role; want (read) or (operate)`},
		{"alice: " + first + "\n\nbob: " + first, `tokens:3: duplicate token, first set in line 1`},
		{"short\nalso short\n", "tokens:1: a token of 5 bytes can be guessed; want at least 16, such as the output of openssl rand -hex 24\n" +
			`tokens:2: not a token; want one per line, of printable ASCII without spaces`},
	} {
		_, err := callers.ParseTokens("tokens", []byte(test.text), true)
		if err == nil || err.Error() != test.want {
			t.Errorf("%q:\ngot  %v\nwant %s", test.text, err, test.want)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), first) {
			t.Errorf("%q: a token is shown: %v", test.text, err)
		}
	}
}

// TestWithoutRoles: if roles is false, a line with a role is a mistake.
func TestWithoutRoles(t *testing.T) {
	_, err := callers.ParseTokens("tokens", []byte("alice (read): "+first), false)
	if want := "tokens:1: these tokens have no roles; want only the name of the holder before the colon"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// FuzzTokens checks that only text from the file is accepted as a token.
func FuzzTokens(f *testing.F) {
	f.Add("alice: "+first+"\n"+second, first)
	f.Add("# comment\n\n"+third+"\r\n", "")
	f.Fuzz(func(t *testing.T, text, shown string) {
		tokens, err := callers.ParseTokens("tokens", []byte(text), true)
		if err != nil {
			return
		}
		_, ok := tokens.Holder([]string{"Bearer " + shown})
		if ok && (len(strings.TrimSpace(shown)) < 16 || !strings.Contains(text, strings.TrimSpace(shown))) {
			t.Errorf("%q opens with %q", text, shown)
		}
	})
}
