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
		readings, ok := readPath(u.Path, u.RawPath)
		if !ok {
			return // it is denied
		}
		want := func(who, path string) {
			if path = pathpattern.Clean(path); !slices.Contains(readings, path) {
				t.Errorf("%q: %s reads %q; we read %q", target, who, path, readings)
			}
		}
		want("net/http", u.Path)
		if p, ok := whatwg.Pathname(target); ok && isASCII(target) {
			want("Node, by segments,", decodedInSegments(p))
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
	})
}

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
	for _, p := range []string{"/", "/a", "/a/b-c_d", "/a/b-c_d.e", "/v1.2/a", "/a.php"} {
		readings, ok := readPath(p, "")
		if plain, _ := isPlain(p); !plain || !ok || !slices.Equal(readings, []string{p}) {
			t.Errorf("%q is plain %v, and has the readings %q", p, plain, readings)
		}
	}
	for _, p := range []string{"", "a", "/a/", "//a", "/a//b", "/.a", "/a/../b", "/a#", "/a?", "/a;", "/a\\b",
		"/a\n", "/a\tb", "/a ", "/a\x00", "/A", "/é", "/%61", "/index.php/a"} {
		if plain, _ := isPlain(p); plain {
			t.Errorf("%q is taken for plain", p)
		}
	}
	for p, want := range map[string]int{"/a": 0, "/a.b": 2, "/a.b/c": 0, "/a/b.c.d": 6} {
		if _, dot := isPlain(p); dot != want {
			t.Errorf("the ending of %q begins at %d, want %d", p, dot, want)
		}
	}
}

// TestReadings: each difference between routers makes the readings that it accounts for, and no
// others. The first is that of net/http.
func TestReadings(t *testing.T) {
	for _, test := range []struct {
		target string
		want   string
	}{
		{"/", "/"},
		{"/a", "/a"},
		{"/a/", "/a"},
		{"a", "/a"}, // not rooted: of callers without HTTP
		{"*", "/*"},
		{"/%61", "/a /%61"},
		// Some decode until nothing changes.
		{"/%2561", "/%61 /a"},
		{"/%252561", "/%2561 /%61 /a"},
		{"/100%25", "/100%"},
		// Empty and dot segments are kept, removed, or an empty one is what ".." removes.
		{"/a//b", "/a/b /a//b"},
		{"/a//b/", "/a/b /a//b"},
		{"/a/./b", "/a/b /a/./b"},
		{"/a/../b", "/b /a/../b"},
		{"/a//../b", "/b /a//../b /a/../b /a/b"},
		// An encoded slash divides segments before dots are removed, after that, or never.
		{"/a%2Fb", "/a/b /a%2Fb"},
		{"/a%2Fb/../c", "/a/c /a/b/../c /a%2Fb/../c /c"},
		// What follows a semicolon is no part of a segment.
		{"/a;v=1/b;w", "/a;v=1/b;w /a/b /a;v=1/b"},
		{"/a/..;/b", "/a/..;/b /a/../b /b"},
		// A backslash is a slash.
		{"/a%5Cb", `/a\b /a/b`},
		{"/a%5C..%5Cb", `/a\..\b /a/../b /b`},
		// A number sign, a question mark or a NUL ends a path, and control characters are dropped.
		{"/a%23b", "/a#b /a"},
		{"/a%3Fb", "/a?b /a"},
		{"/a%00b", "/a\x00b /a /ab"},
		{"/a%0A", "/a\n /a"},
		{"/a%09b%85", "/a\tb\x85 /ab\x85 /a\tb /ab"},
		{"/a%01%09", "/a\x01\t /a\x01 /a"},
		{"/a%23b%3Fc", "/a#b?c /a /a#b"},
		{"/a%E2%80%83", "/a\u2003 /a"},
		// Two slashes are followed by a host.
		{"//x/a", "/x/a //x/a /a"},
		{"///x/a", "/x/a ///x/a /a"},
		{"//x", "/x //x /"},
		// A front controller is named before what it is asked for.
		{"/index.php/a", "/index.php/a /a"},
		{"/b/app.php/a/x.php", "/b/app.php/a/x.php /b/a/x.php /a/x.php"},
		{"/x.y/Index.PHP/a", "/x.y/Index.PHP/a /x.y/a /a"},
	} {
		u := &url.URL{Path: test.target}
		if strings.HasPrefix(test.target, "/") {
			var err error
			if u, err = url.ParseRequestURI(test.target); err != nil {
				t.Fatal(err)
			}
		}
		if got, ok := readPath(u.Path, u.RawPath); !ok || !slices.Equal(got, strings.Split(test.want, " ")) {
			t.Errorf("%s: got %q, %v, want %q", test.target, got, ok, test.want)
		}
	}
}

// TestReadingsAreBounded: a path that could be read in more ways than are looked at is refused, and
// how much work a path is does not depend on its length.
func TestReadingsAreBounded(t *testing.T) {
	for name, path := range map[string]string{
		"encoded":     "/%" + strings.Repeat("25", 40) + "61",
		"authorities": strings.Repeat("//x", 40),
		"mixed":       `//x//a/../b;c/..\..//d/./e;f#g%2523/../h`,
		"long":        "/" + strings.Repeat("a;b/", 6000),
	} {
		readings, ok := readPath(path, "")
		if ok {
			t.Errorf("%s has %d readings", name, len(readings))
		}
	}
	if _, ok := readPath("/"+strings.Repeat("a/", 8000), ""); !ok {
		t.Error("a long path with one reading is refused")
	}
}
