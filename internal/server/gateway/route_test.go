package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/pathpattern"
)

// Any path stays under the upstream's, says the same in both of its forms, and keeps
// its query.
func FuzzPoint(f *testing.F) {
	for _, target := range []string{"/api", "/api/", "/%61pi/x?q", "/api%2Fx", "/api/a%2Fb//c;d", "/api?", "/api/%00",
		"/apis", "/a/..", "/api/\xff", "*", "http://host", "//api",
		"/api//x", "/api/%2Fx", "/api//%2F/x|", "/api/a%2Fb|c", "/api/\xc3\xbc%2F"} {
		f.Add(target, true)
		f.Add(target, false)
	}
	f.Fuzz(func(t *testing.T, target string, strip bool) {
		u, err := url.ParseRequestURI(target)
		if err != nil || ambiguity(&http.Request{Method: "GET", URL: u, RequestURI: target}, strip) != nil {
			return
		}
		r := newRoute(&config.Route{PathPrefix: "/api", Upstream: "http://upstream/b%2Fase", StripPrefix: strip})
		table := routes{}
		table.add(r)
		if table.find("host", u) == nil {
			return
		}
		before := *u
		r.point(u)
		if u.Scheme != "http" || u.Host != "upstream" || u.User != nil || u.RawQuery != before.RawQuery {
			t.Errorf("%q: got %v", target, u)
		}
		if escaped := u.EscapedPath(); !strings.HasPrefix(escaped, "/b%2Fase/") || pathpattern.Dotted(u.Path) {
			t.Errorf("%q: got the path %q", target, escaped)
		}
		if plain, err := url.PathUnescape(u.RawPath); u.RawPath != "" &&
			(err != nil || plain != u.Path || u.EscapedPath() != u.RawPath) {
			t.Errorf("%q: got %q, sent as %q", target, u.RawPath, u.EscapedPath())
		}
		if strings.Count(strings.ToLower(u.EscapedPath()), "%2f") != 1+
			strings.Count(strings.ToLower(before.RawPath), "%2f") {
			t.Errorf("%q: got %q, with other slashes", target, u.EscapedPath())
		}
		if strip && strings.HasPrefix(u.EscapedPath(), "/b%2Fase//") {
			t.Errorf("%q: got %q, with two slashes after the base", target, u.EscapedPath())
		}
		rest, _ := strings.CutPrefix(before.Path, "/api")
		if !strip {
			rest = before.Path
		}
		if got, want := strings.TrimLeft(strings.TrimPrefix(u.Path, "/b/ase"), "/"), strings.TrimLeft(rest, "/"); got != want {
			t.Errorf("%q: got %q after the base, want %q", target, got, want)
		}
	})
}
