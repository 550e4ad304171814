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

// TestReadings: each difference between routers makes the readings that it accounts for, and no
// others.
func TestReadings(t *testing.T) {
	for _, test := range []struct {
		target string
		first  string
		others []string
	}{
		{"/", "/", nil},
		{"/a", "/a", nil},
		{"/a/", "/a", nil},
		{"/%61", "/a", nil},
		{"a", "/a", nil}, // not rooted: of callers without HTTP
		{"*", "/*", nil},
		// Empty and dot segments are kept, removed, or an empty one is what ".." removes.
		{"/a//b", "/a/b", []string{"/a//b"}},
		{"/a//b/", "/a/b", []string{"/a//b"}},
		{"/a/./b", "/a/b", []string{"/a/./b"}},
		{"/a/../b", "/b", []string{"/a/../b"}},
		{"/a//../b", "/b", []string{"/a//../b", "/a/b"}},
		// An encoded slash divides segments before dots are removed, after that, or never.
		{"/a%2Fb", "/a/b", []string{"/a%2Fb"}},
		{"/a%2Fb/../c", "/a/c", []string{"/a/b/../c", "/a%2Fb/../c", "/c"}},
		{"/a%2Fb/c%2Fd/../e", "/a/b/c/e", []string{"/a/b/c/d/../e", "/a%2Fb/c%2Fd/../e", "/a%2Fb/e", "/a/b/e"}},
		// What follows a semicolon is no part of a segment.
		{"/a;v=1/b;w", "/a;v=1/b;w", []string{"/a/b"}},
		{"/a/..;/b", "/a/..;/b", []string{"/b"}},
		{"a;v=1/b", "/a;v=1/b", []string{"/a/b"}},
		// A backslash is a slash.
		{"/a%5Cb", `/a\b`, []string{"/a/b"}},
		{"/a%5C..%5Cb", `/a\..\b`, []string{"/b"}},
		// A number sign or a question mark ends a path, and so does a newline.
		{"/a%23b", "/a#b", []string{"/a"}},
		{"/a%3Fb", "/a?b", []string{"/a"}},
		{"/a%0A", "/a\n", []string{"/a"}},
		// Two slashes are followed by a host.
		{"//x/a", "/x/a", []string{"//x/a", "/a"}},
		{"///x/a", "/x/a", []string{"///x/a", "/a"}},
		{"//x", "/x", []string{"//x", "/"}},
	} {
		u := &url.URL{Path: test.target}
		if strings.HasPrefix(test.target, "/") {
			var err error
			if u, err = url.ParseRequestURI(test.target); err != nil {
				t.Fatal(err)
			}
		}
		if first, others := readPath(u.Path, u.RawPath); first != test.first || !slices.Equal(others, test.others) {
			t.Errorf("%s: got %q and %q, want %q and %q", test.target, first, others, test.first, test.others)
		}
	}
}
