package policy

import (
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/pathpattern"
	"github.com/stint-limiter/stint/internal/whatwg"
)

// FuzzReadings: whatever a target is, its readings have the path that net/http's mux makes of it,
// that of applications that use a WHATWG URL parser, whether they decode segments or the whole, and
// that of nginx.
func FuzzReadings(f *testing.F) {
	for _, target := range []string{
		"/", "/login", "//x/login", "//x:1/login", "//u@x/login", "///x/login", "//x", "/login#x", "/login%23x",
		"/x\\..\\login", "/..\\login",
		"/\\x/login", "/%5Cx/login", "/static/\\..\\..\\login", "/a%2Fb/../login", "/a//../login", "/a/%2e%2e/login",
		"/a/..%2flogin",
		"/a;b/..;/login;c=d", "/login/", "/login//", "/./login", "/login/.", "/a/b/..", "/https://example.com/x",
		"/a/..b/...", "/;", "/%3B/x",
		"//\\/x\\y/../login#z", "/a#/../login", "/a?/../login", "//x#y/login", "//x\\..\\a%2F%2e%2e//..;#",
	} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Scheme != "" || target[0] != '/' || strings.IndexByte(target, ' ') >= 0 {
			t.Skip("no server hands this on")
		}
		first, others := readPath(u.Path, u.RawPath)
		readings := append([]string{first}, others...)
		want := func(who, path string) {
			if path = pathpattern.Clean(path); !slices.Contains(readings, path) {
				t.Errorf("%q: %s reads %q; we read %q", target, who, path, readings)
			}
		}
		want("net/http", u.Path)
		if p, ok := whatwg.Pathname(target); ok && isASCII(target) {
			want("Node, by segments,", sentPath(p))
			if plain, err := url.PathUnescape(p); err == nil {
				want("Node", plain)
			}
		}
		if p, ok := nginxPath(target); ok {
			want("nginx", p)
		}
		for _, reading := range readings {
			if !strings.HasPrefix(reading, "/") {
				t.Errorf("%q: the reading %q is not rooted", target, reading)
			}
		}
		if len(readings) > maxReadings {
			t.Errorf("%q has %d readings, want at most %d", target, len(readings), maxReadings)
		}
	})
}

// maxReadings is what the worst path comes to.
const maxReadings = 100

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c > 0x7f })
}

// nginxPath is the path of nginx's locations: cut at a number sign, decoded, with single slashes,
// and without dot segments. It refuses what leads above the root.
func nginxPath(target string) (string, bool) {
	target, _, _ = strings.Cut(target, "?")
	target, _, _ = strings.Cut(target, "#")
	p, err := url.PathUnescape(target)
	if err != nil || strings.IndexByte(p, 0) >= 0 {
		return "", false
	}
	depth := 0
	for word := range strings.SplitSeq(p, "/") {
		switch word {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return "", false
			}
		default:
			depth++
		}
	}
	return path.Clean(p), true
}

// TestPlainPaths: a plain path has one reading, itself.
func TestPlainPaths(t *testing.T) {
	for _, p := range []string{"/", "/a", "/a/b-c_d.e", "/a/b/c%", "/a b"} {
		if first, others := readPath(p, ""); !isPlain(p) || first != p || others != nil {
			t.Errorf("%q is plain %v, and has the readings %q %q", p, isPlain(p), first, others)
		}
	}
	for _, p := range []string{"", "a", "/a/", "//a", "/a//b", "/.a", "/a/../b", "/a#", "/a?", "/a;", "/a\\b",
		"/a\n", "/A", "/é"} {
		if isPlain(p) {
			t.Errorf("%q is taken for plain", p)
		}
	}
}
