package label_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stint-limiter/stint/internal/label"
)

var shortened = []struct{ subject, want string }{
	{"", ""},
	{"user:42", "user:42"},
	{"user:mallory", "user:mallor…"},
	{"user:mallory:structure", "user:mallor…"},
	{"user:", "user:"},
	{"apikey:sk-live-0123456789", "apikey:sk-liv…"},
	{"sk-live-0123456789", "sk-liv…"},
	{"sk-live:0123456789", "sk-liv…"},
	{"averyveryverylongword:1", "averyv…"},
	{":x", ":x"},
	{"ip:203.0.113.7", "ip:203.0.113.x"},
	{"ip:203.0.113.7:global", "ip:203.0.113.x"},
	{"ip:203.0.113.0/24", "ip:203.0.113.x"},
	{"ip:2001:db8:1:2::/64", "ip:2001:db8:1::/48"},
	{"ip:2001:db8:1:2::/64:login", "ip:2001:db8:1::/48"},
	{"ip:2001:db8:1:2:3:4:5:6", "ip:2001:db8:1::/48"},
	{"ip:fe80::1%eth0", "ip:fe80::/48"},
	{"ip:::ffff:203.0.113.7", "ip:203.0.113.x"},
	{"ip:::ffff:203.0.113.7/120", "ip:203.0.113.x"},
	{"ip:unknown", "ip:unknow…"},
	{"user:a\nb\x1b[", `user:a\nb\x1b[`},
	{"user:\u202eabc", `user:\u202eabc`},
	{"user:äöüß", "user:äöü…"},
	{"user:abcdeäx", "user:abcde…"},
	{"user:\xff\xfe", `user:\xff\xfe`},
	{`user:"a"`, `user:"a"`},
}

func TestShort(t *testing.T) {
	for _, test := range shortened {
		if got := label.Short(test.subject); got != test.want {
			t.Errorf("Short(%q) = %q, want %q", test.subject, got, test.want)
		}
	}
}

func TestLine(t *testing.T) {
	long := strings.Repeat("ä", 100)
	tests := []struct{ text, want string }{
		{"", ""},
		{"user:mallory", "user:mallory"},
		{"a\r\nb\tc\x00", `a\r\nb\tc\x00`},
		{`path "/a" of 'b'`, `path "/a" of 'b'`},
		{`CORP\new`, `CORP\\new`},
		{`"\`, `"\\`},
		{`\"`, `\\"`},
		{`\\""`, `\\\\""`},
		{long, long[:128] + "…"},
		{"x" + long, "x" + long[:126] + "…"},
	}
	for _, test := range tests {
		if got := label.Line(test.text); got != test.want {
			t.Errorf("Line(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}

// Whatever a request says, what is shown is one line of bounded length that a terminal can be given.
func FuzzShown(f *testing.F) {
	for _, test := range shortened {
		f.Add(test.subject)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		for name, show := range map[string]func(string) string{"Short": label.Short, "Line": label.Line} {
			got := show(subject)
			if !utf8.ValidString(got) || len(got) > 600 {
				t.Errorf("%s(%q) = %q: not UTF-8, or long", name, subject, got)
			}
			for _, r := range got {
				if !unicode.IsPrint(r) {
					t.Errorf("%s(%q) = %q: %q cannot be printed", name, subject, got, r)
				}
			}
		}
		if got, err := strconv.Unquote(`"` + strings.ReplaceAll(label.Line(subject), `"`, `\"`) + `"`); len(subject) <= 128 && (err != nil || got != subject) {
			t.Errorf("Line(%q) reads as %q, %v", subject, got, err)
		}
		if got := label.Short(subject); !strings.HasPrefix(got, "ip:") && len(got) > 100 {
			t.Errorf("Short(%q) = %q: long", subject, got)
		}
	})
}
