package whatwg_test

import (
	"testing"

	"github.com/stint-limiter/stint/internal/whatwg"
)

// TestPathname holds it to what Node 20 makes of the same targets.
func TestPathname(t *testing.T) {
	for _, test := range []struct {
		target, path string
		ok           bool
	}{
		{"", "/", true},
		{"/", "/", true},
		{"/login", "/login", true},
		{"//x/login", "/login", true},
		{"//x:1/login", "/login", true},
		{"//u@x/login", "/login", true},
		{"//u:p@x/login", "/login", true},
		{"///x/login", "/login", true},
		{"//x", "/", true},
		{"//x?/login", "/", true},
		{"//", "", false},
		{"///", "", false},
		{"/\\x/login", "/login", true},
		{"\\\\x\\login", "/login", true},
		{"/login#x", "/login", true},
		{"/login#", "/login", true},
		{"#/login", "/", true},
		{"/login?x", "/login", true},
		{"/x\\..\\login", "/login", true},
		{"/..\\login", "/login", true},
		{"/static/\\..\\..\\login", "/login", true},
		{"/a/../login", "/login", true},
		{"/a/..", "/", true},
		{"/a/.", "/a/", true},
		{"/a/b/../../../login", "/login", true},
		{"/./login", "/login", true},
		{"/%2e/login", "/login", true},
		{"/a/%2e%2E/login", "/login", true},
		{"/a/.%2e/login", "/login", true},
		{"/a%2f..%2flogin", "/a%2f..%2flogin", true},
		{"/a%5c..%5clogin", "/a%5c..%5clogin", true},
		{"/..;/login", "/..;/login", true},
		{"/a/..;x/../login", "/a/login", true},
		{"/lo\x09gin", "/login", true},
		{"/lo\x0agin", "/login", true},
		{"\x09/login", "/login", true},
		{" /login", "/login", true},
		{"/login ", "/login", true},
		{"/login\x00", "/login", true},
		{"\x00/login", "/login", true},
		{"/lo gin", "/lo%20gin", true},
		{"/%6cogin", "/%6cogin", true},
		{"/login/", "/login/", true},
		{"/login//", "/login//", true},
		{"/a//b", "/a//b", true},
		{"/https://example.com/x", "/https://example.com/x", true},
		{"login", "/login", true},
		{"./login", "/login", true},
		{"../login", "/login", true},
		{"http://x/login", "/login", true},
		{"HTTP://x/login", "/login", true},
		{"http:/login", "/login", true},
		{"http:login", "/login", true},
		{"http:\\\\x\\login", "/login", true},
		{"https:login", "/", true},
		{"https:/x/login", "/login", true},
		{"ws://x/login", "/login", true},
		{"ftp:x/login", "/login", true},
		{"file:///login", "/login", true},
		{"file:/login", "/login", true},
		{"file://x/login", "/login", true},
		{"foo://x/login", "/login", true},
		{"foo:/login", "/login", true},
		{"foo:login", "login", true},
		{"foo:\\login", "\\login", true},
		{"/login\xe9", "/login%C3%A9", true},
		{"/\x7f", "/%7F", true},
		{"/`{}<>\"|^", "/%60%7B%7D%3C%3E%22|^", true},
		{"/x@y/login", "/x@y/login", true},
		{"//x@y@z/login", "/login", true},
		{"//[::1]/login", "/login", true},
		{"//x\x09/login", "/login", true},
		{"/\x09/x/login", "/login", true},
		{"/a/..\\..//login", "//login", true},
		{"/%", "/%", true},
		{"/%zz", "/%zz", true},
		{"/LOGIN", "/LOGIN", true},
	} {
		if path, ok := whatwg.Pathname(test.target); path != test.path || ok != test.ok {
			t.Errorf("%q: got %q, %v, want %q, %v", test.target, path, ok, test.path, test.ok)
		}
	}
}
