package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/pathpattern"
	"github.com/stint-limiter/stint/internal/routecheck"
	"github.com/stint-limiter/stint/internal/syntax"
)

// route is a valid [config.Route], in a form that can be matched quickly.
type route struct {
	host        string // in lower case; "" means any host
	prefix      string // without a trailing slash; "" means any path
	name        string // the upstream's host, for logs
	target      *url.URL
	http2       bool // whether the upstream uses HTTP/2 without TLS
	strip       bool
	rewriteHost bool
	transports  *transportPair
}

// newRoute converts a valid [config.Route]. It does not set the transports.
func newRoute(r *config.Route) *route {
	u, _ := url.Parse(r.Upstream) // never fails
	n := &route{name: u.Host, target: u, http2: u.Scheme == "h2c", strip: r.StripPrefix, rewriteHost: r.RewriteHost}
	match := routecheck.MatchOf(r.Host, r.PathPrefix)
	n.host, n.prefix = match.Host, match.Prefix
	if n.http2 {
		u.Scheme = "http"
	}
	return n
}

// routes maps each host to its routes, sorted by prefix length, longest first.
type routes map[string][]*route

// add adds a route. If another route matches the same requests, it adds nothing and returns false.
func (t routes) add(r *route) bool {
	same := func(other *route) bool { return other.prefix == r.prefix }
	if slices.ContainsFunc(t[r.host], same) {
		return false
	}
	t[r.host] = append(t[r.host], r)
	slices.SortFunc(t[r.host], func(a, b *route) int { return len(b.prefix) - len(a.prefix) })
	return true
}

func (t routes) find(host string, u *url.URL) *route {
	if host = strings.ToLower(syntax.Host(host)); host != "" {
		if r := longest(t[host], u); r != nil {
			return r
		}
	}
	return longest(t[""], u)
}

func longest(list []*route, u *url.URL) *route {
	for _, r := range list {
		if r.fits(u) {
			return r
		}
	}
	return nil
}

// fits reports whether the path of u begins with the route's prefix, in whole segments. A %2f does
// not separate segments.
func (r *route) fits(u *url.URL) bool {
	path := u.Path
	if path == "" {
		path = "/"
	}
	rest, ok := strings.CutPrefix(path, r.prefix)
	if u.RawPath != "" {
		at := encoded(u.RawPath, len(r.prefix))
		rest = u.RawPath[at:]
		ok = ok && !strings.Contains(strings.ToLower(u.RawPath[:at]), "%2f")
	}
	return ok && (rest == "" || rest[0] == '/')
}

// point changes u to the URL at the upstream. If the route strips its prefix, the rest of the path
// begins with exactly one slash. If it began with two, many upstreams would read its first segment
// as a host, and would handle a different request than the one that was decided.
func (r *route) point(u *url.URL) {
	if r.strip {
		u.Path = u.Path[len(r.prefix):]
		sent := u.Path
		if u.RawPath != "" {
			u.RawPath = u.RawPath[encoded(u.RawPath, len(r.prefix)):]
			sent = u.RawPath
		}
		if more := len(sent) - len(strings.TrimLeft(sent, "/")) - 1; more > 0 {
			u.Path, u.RawPath = u.Path[more:], u.RawPath[min(more, len(u.RawPath)):]
		}
	}
	joined := *r.target
	joined.Path, joined.RawPath = join(r.target.Path, u.Path), ""
	if r.target.RawPath != "" || u.RawPath != "" {
		joined.RawPath = join(r.target.EscapedPath(), escapedPath(u))
	}
	joined.RawQuery, joined.ForceQuery = u.RawQuery, u.ForceQuery
	*u = joined
}

// escapedPath returns the path as received, with invalid characters encoded. If there is an invalid
// character, [url.URL.EscapedPath] would encode the decoded path, in which encoded slashes have
// become slashes.
func escapedPath(u *url.URL) string {
	if u.RawPath == "" {
		return u.EscapedPath()
	}
	var b strings.Builder
	for _, c := range []byte(u.RawPath) {
		if isAlphanumeric(rune(c)) || strings.IndexByte("-._~!$&'()*+,;=:@/%[]", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// join appends path to base, with one slash between them.
func join(base, path string) string {
	return strings.TrimSuffix(base, "/") + "/" + strings.TrimPrefix(path, "/")
}

// encoded returns the length of the prefix of an encoded path that encodes the first n bytes of the
// decoded path.
func encoded(path string, n int) int {
	at := 0
	for ; n > 0 && at < len(path); n-- {
		if path[at] == '%' {
			at += 2
		}
		at++
	}
	return min(at, len(path))
}

// ambiguity returns a problem if an upstream could read r differently than the policies did, and
// otherwise nil. It also returns a problem for requests that net/http cannot send, because the
// upstream would be blamed for their errors.
func ambiguity(r *http.Request, passUnusual bool) *problem {
	switch {
	case !syntax.IsToken(r.Method): // net/http does not check the method in HTTP/2
		return &tokenProblem
	case pathpattern.Dotted(r.URL.Path) || strings.IndexByte(r.URL.RawQuery, ' ') >= 0,
		!utf8.ValidString(r.RequestURI), !syntax.IsHost(r.Host):
		return &ambiguousProblem
	case !passUnusual && unusual(r.RequestURI):
		return &unusualProblem
	}
	return nil
}

// unusual reports whether a request target has a "#", or a backslash in its path. No legitimate
// client sends them, and some servers read them as the end of the path or as a slash. A backslash
// in the query is allowed, because browsers send it. net/http itself refuses control characters.
func unusual(target string) bool {
	path, _, _ := strings.Cut(target, "?")
	return strings.IndexByte(target, '#') >= 0 || strings.IndexByte(path, '\\') >= 0
}
