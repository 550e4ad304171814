package gateway

import (
	"maps"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/policy"
)

// reserved is a set of header fields that identify the sender or the target of a request. Only
// trusted proxies may set them.
type reserved map[string]bool

// newReserved returns the reserved fields: those in alwaysReserved, those from which the policies
// take claims and client addresses, and the other fields that the caller lists.
func newReserved(set *policy.Set, others []string) reserved {
	f := reserved{}
	for _, name := range slices.Concat(alwaysReserved, slices.Collect(maps.Values(set.Spec().Claims)),
		[]string{set.Spec().ClientHeader}, others) {
		f[plainName(name)] = true
	}
	return f
}

// alwaysReserved lists the fields that are always reserved. Fields with a prefix in
// reservedPrefixes are reserved too.
var alwaysReserved = []string{
	// Fields about the origin of a request.
	"Forwarded", "Forwarded-For", "X-Forwarded", "X-Forward-For", "X-Original-Forwarded-For", "X-Real-IP",
	"X-Client-IP", "X-Cluster-Client-IP", "Cluster-Client-IP", "X-Originating-IP", "X-Original-Remote-Addr",
	"X-Remote-IP", "X-Remote-Addr", "Remote-Addr", "X-ProxyUser-IP", "Proxy-Client-IP", "WL-Proxy-Client-IP",
	"Client-IP", "True-Client-IP", "Ali-CDN-Real-IP", "CDN-Src-IP", "CF-Connecting-IP", "CF-Connecting-IPv6",
	"CF-Pseudo-IPv4", "CloudFront-Viewer-Address", "DO-Connecting-IP", "Fastly-Client-IP", "Fly-Client-IP",
	"Incap-Client-IP", "X-Appengine-User-IP", "X-Azure-ClientIP", "X-Azure-SocketIP", "X-NF-Client-Connection-IP",
	"X-Sucuri-ClientIP", "X-Vercel-Forwarded-For",
	// Fields about the target of a request.
	"X-Original-Method", "X-Original-URL", "X-Original-URI", "X-Original-Path", "X-Original-Host", "X-Original-Proto",
	"X-Rewrite-URL", "X-Override-URL",
	"X-Replaced-Path", "X-WAWS-Unencoded-URL", "X-Host", "X-HTTP-Host-Override", "X-Scheme", "X-URL-Scheme",
	"Front-End-Https",
	// Fields that CGI and WSGI programs can mistake for variables that their server has set.
	"Script-Name", "X-Script-Name", "Path-Info", "Proxy",
}

var reservedPrefixes = []string{"X-Forwarded-", "X-Envoy-"}

// has reports whether a field is reserved. name must be in canonical form.
func (f reserved) has(name string) bool {
	// Some programs read fields that are named like CGI variables, such as HTTP_CLIENT_IP.
	if rest, ok := strings.CutPrefix(name, "Http-"); ok && f.has(rest) {
		return true
	}
	return f[name] || slices.ContainsFunc(reservedPrefixes,
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// plainName returns a name in canonical form, with dashes in place of all characters except letters
// and digits.
func plainName(name string) string {
	return http.CanonicalHeaderKey(strings.Map(func(c rune) rune {
		if isAlphanumeric(c) {
			return c
		}
		return '-'
	}, name))
}

// dropAliases removes fields whose names contain characters other than letters, digits and dashes,
// as nginx does. Servers that turn fields into variables, such as CGI and WSGI servers, treat
// X_API_Key like X-API-Key, but the policies do not.
func dropAliases(h http.Header) {
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		return strings.ContainsFunc(name, func(c rune) bool { return c != '-' && !isAlphanumeric(c) })
	})
}

func isAlphanumeric(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func (f reserved) strip(h http.Header) {
	maps.DeleteFunc(h, func(name string, _ []string) bool { return f.has(name) })
}

func (f reserved) keep(to, from http.Header) {
	for name, values := range from {
		if f.has(name) {
			to[name] = values
		}
	}
}

// rewrite completes p.Out, the request to the upstream. Fields that the client named in Connection
// have already been removed, so a client cannot remove fields that are set here.
func rewrite(p *httputil.ProxyRequest) {
	x := stateOf(p.In.Context())
	p.Out.URL.RawQuery = p.In.URL.RawQuery // unchanged: the gateway does not parse it
	x.route.point(p.Out.URL)
	p.Out.Host = p.In.Host
	if x.route.rewriteHost {
		p.Out.Host = ""
	}
	p.Out.Trailer = p.In.Trailer // the values arrive after the body
	if x.upgrade = asksForWebsocket(p.Out); !x.upgrade {
		p.Out.Header.Del("Connection")
		p.Out.Header.Del("Upgrade")
	}

	if p.In.Header.Get("Expect") != "" {
		p.Out.Close = true // otherwise, the whole body is sent even if the upstream does not want it
	}

	h := p.Out.Header
	if x.trusted() {
		x.settings.reserved.keep(h, p.In.Header)
	} else {
		x.settings.reserved.strip(h)
	}
	dropAliases(h)
	x.setForwarded(h, p.In)
	x.rewritten = true
}

// asksForWebsocket reports whether a request asks for a WebSocket. No other upgrade is forwarded.
func asksForWebsocket(r *http.Request) bool {
	return r.ContentLength == 0 && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// setForwarded adds the peer to X-Forwarded-For and, if the request has that field, to Forwarded.
// It sets X-Real-IP unless the peer is a trusted proxy. It sets the original host and scheme unless
// a trusted proxy has set them.
func (x *requestState) setForwarded(h http.Header, in *http.Request) {
	scheme := "http"
	if in.TLS != nil {
		scheme = "https"
	}
	if x.peer.IsValid() {
		add(h, "X-Forwarded-For", x.peer.String())
		if len(h["Forwarded"]) > 0 {
			add(h, "Forwarded", "for="+forwardedNode(x.peer)+";proto="+scheme)
		}
		if !x.trusted() {
			h["X-Real-Ip"] = []string{x.peer.String()}
		}
	}
	if len(h["X-Forwarded-Host"]) == 0 && in.Host != "" {
		h["X-Forwarded-Host"] = []string{in.Host}
	}
	if len(h["X-Forwarded-Proto"]) == 0 {
		h["X-Forwarded-Proto"] = []string{scheme}
	}
}

// forwardedNode formats an address for the Forwarded header field (RFC 7239, section 6).
func forwardedNode(a netip.Addr) string {
	if a.Is6() {
		return `"[` + a.String() + `]"`
	}
	return a.String()
}

// add appends a value to a header field that is a list. It joins all lines of the field into one.
func add(h http.Header, name, value string) {
	if prior := h[name]; len(prior) > 0 {
		value = strings.Join(prior, ", ") + ", " + value
	}
	h[name] = []string{value}
}

// trusted reports whether the peer is a trusted proxy according to the set that decided the
// request.
func (x *requestState) trusted() bool { return x.verdict.Set.Trusts(x.peer) }
