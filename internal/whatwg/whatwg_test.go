package whatwg_test

import (
	"testing"

	"github.com/stint-limiter/stint/internal/whatwg"
)

// TestPathname holds it to what Node 20 makes of the same targets.
func TestPathname(t *testing.T) {
	reads := func(target, want string) {
		t.Helper()
		if got, ok := whatwg.Pathname(target); got != want || !ok {
			t.Errorf("%q: got %q, %v, want %q", target, got, ok, want)
		}
	}
	for _, target := range []string{
		"/login", "//x/login", "//x:1/login", "//u@x/login", "//u:p@x/login", "///x/login", "/\\x/login",
		"\\\\x\\login", "/login#x", "/login#", "/login?x", "/x\\..\\login", "/..\\login",
		"/static/\\..\\..\\login", "/a/../login", "/a/b/../../../login", "/./login", "/%2e/login",
		"/a/%2e%2E/login", "/a/.%2e/login", "/lo\x09gin", "/lo\x0agin", "\x09/login", " /login", "/login ",
		"/login\x00", "\x00/login", "login", "./login", "../login", "http://x/login", "HTTP://x/login",
		"http:/login", "http:login", "http:\\\\x\\login", "https:/x/login", "ws://x/login", "ftp:x/login",
		"file:///login", "file:/login", "file://x/login", "foo://x/login", "foo:/login", "//x@y@z/login",
		"//[::1]/login", "//x\x09/login", "/\x09/x/login",
	} {
		reads(target, "/login")
	}
	for _, target := range []string{"", "/", "//x", "//x?/login", "#/login", "/a/..", "https:login"} {
		reads(target, "/")
	}
	for _, unchanged := range []string{
		"/a%2f..%2flogin", "/a%5c..%5clogin", "/..;/login", "/%6cogin", "/login/", "/login//", "/a//b",
		"/https://example.com/x", "/x@y/login", "/%", "/%zz", "/LOGIN",
	} {
		reads(unchanged, unchanged)
	}
	for target, path := range map[string]string{
		"/a/.": "/a/", "/a/..;x/../login": "/a/login", "/lo gin": "/lo%20gin", "foo:login": "login",
		"foo:\\login": "\\login", "/login\xe9": "/login%C3%A9", "/\x7f": "/%7F",
		"/`{}<>\"|^": "/%60%7B%7D%3C%3E%22|^", "/a/..\\..//login": "//login",
	} {
		reads(target, path)
	}
	for _, target := range []string{"//", "///"} {
		if got, ok := whatwg.Pathname(target); ok {
			t.Errorf("%q: got %q, want no path", target, got)
		}
	}
}
