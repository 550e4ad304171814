package label_test

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
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
	{"user#4kWXjsbSBbkYkHdLyaQgIQ", "user#4kWXjs…"},
	{"user#4kWX", "user#4…"},
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

// TestTagged: subjects that begin alike look different, and what hides nothing has no tag.
func TestTagged(t *testing.T) {
	for _, test := range shortened {
		got, want := label.Tagged(test.subject, "x1y2z3"), test.want
		if want != label.Line(test.subject) {
			want += "#x1y2"
			if !label.IsShort(got) {
				t.Errorf("%q does not look shortened", got)
			}
		}
		if got != want {
			t.Errorf("Tagged(%q) = %q, want %q", test.subject, got, want)
		}
	}
	if got := label.Tagged("user:mallory", ""); got != "user:mallor…" {
		t.Errorf("without a ref: got %q", got)
	}
}

// TestIsShort: what has been shortened looks so, unless it is a network, and what has not does not.
func TestIsShort(t *testing.T) {
	for _, test := range shortened {
		if label.IsShort(test.subject) {
			t.Errorf("%q looks shortened", test.subject)
		}
		want := strings.HasSuffix(test.want, "…") || strings.HasSuffix(test.want, ".x")
		if got := label.IsShort(test.want); got != want {
			t.Errorf("%q: got %t, want %t", test.want, got, want)
		}
	}
	for _, text := range []string{"user:max.x", "ip:a.x", "user:1.2.3.x", "x…y"} {
		if label.IsShort(text) {
			t.Errorf("%q looks shortened", text)
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

func TestURL(t *testing.T) {
	const none = "an invalid URL"
	for text, want := range map[string]string{
		"redis://localhost:6379/0":                 "redis://localhost:6379/0",
		"redis://:secret@localhost:6379/0":         "redis://:xxxxx@localhost:6379/0",
		"rediss://bob:secret@h":                    "rediss://bob:xxxxx@h",
		"redis://secret@h":                         "redis://xxxxx@h",
		"redis://h:26379?master_set=m&password=pw": "redis://h:26379",
		"unix://bob:secret@/run/redis.sock":        "unix://bob:xxxxx@/run/redis.sock",
		"http://u:secret@h/a":                      "http://u:xxxxx@h/a",
		"redis://:sec/ret@h":                       none,
		"redis://u:12/ret@h":                       none,
		"redis://u:12?ret@h":                       none,
		"redis://u:12#ret@h":                       none,
		"redis://:se%zzcret@h":                     none,
		"user:secret@h":                            none,
	} {
		if got := label.URL(text); got != want {
			t.Errorf("URL(%q) = %q, want %q", text, got, want)
		}
	}
}

// Whatever a request says, what is shown is one line of bounded length that a terminal can be
// given.
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
		if got, err := strconv.Unquote(`"` + strings.ReplaceAll(label.Line(subject), `"`, `\"`) + `"`); len(
			subject) <= 128 && (err != nil || got != subject) {
			t.Errorf("Line(%q) reads as %q, %v", subject, got, err)
		}
		if got := label.Short(subject); !strings.HasPrefix(got, "ip:") && len(got) > 100 {
			t.Errorf("Short(%q) = %q: long", subject, got)
		}
	})
}

func TestWait(t *testing.T) {
	for d, want := range map[time.Duration]string{math.MaxInt64: "never", 0: "0s", 850 * time.Millisecond: "850ms"} {
		if got := label.Wait(d).String(); got != want {
			t.Errorf("%d: got %q, want %q", d, got, want)
		}
	}
}
