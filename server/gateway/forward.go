package gateway

import (
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/policy"
)

// reserved are header fields that say who is asking, or for what, and that only trusted proxies may send.
type reserved map[string]bool

// newReserved returns the fields that are reserved while a set is in force, and others.
func newReserved(set *policy.Set, others []string) reserved {
	f := reserved{}
	for _, name := range slices.Concat(alwaysReserved, set.ClaimFields(), []string{set.ClientField()}, others) {
		f[plainName(name)] = true
	}
	return f
}

// alwaysReserved has no X-Forwarded- fields: all of them are.
var alwaysReserved = []string{
	"Forwarded", "X-Forwarded", "X-Real-IP", "X-Client-IP", "X-Cluster-Client-IP", "X-Originating-IP", "X-Remote-IP", "X-Remote-Addr",
	"Client-IP", "True-Client-IP", "CF-Connecting-IP", "CF-Connecting-IPv6", "CF-Pseudo-IPv4", "Fastly-Client-IP", "Fly-Client-IP",
	"X-Azure-ClientIP", "X-Azure-SocketIP", "X-Appengine-User-IP", "X-Envoy-External-Address",
	"X-Original-URL", "X-Original-URI", "X-Original-Host", "X-Rewrite-URL",
	"Proxy", // CGI programs take it for their HTTP_PROXY
}

// has takes a name in its canonical form.
func (f reserved) has(name string) bool {
	if strings.IndexByte(name, '_') >= 0 {
		name = plainName(name)
	}
	return f[name] || strings.HasPrefix(name, "X-Forwarded-")
}

// plainName is the canonical form of a name as servers see it that know no underscores.
func plainName(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

// strip removes the reserved fields.
func (f reserved) strip(h http.Header) {
	for name := range h {
		if f.has(name) {
			delete(h, name)
		}
	}
}

// keep copies the reserved fields.
func (f reserved) keep(to, from http.Header) {
	for name, values := range from {
		if f.has(name) {
			to[name] = values
		}
	}
}

// rewrite makes the request to the upstream. Fields that the client named in Connection are gone by now, and none that are
// set here can be removed that way.
func rewrite(p *httputil.ProxyRequest) {
	x := exchangeOf(p.In.Context())
	p.Out.URL.RawQuery = p.In.URL.RawQuery // untouched: nothing here looks into it
	x.route.point(p.Out.URL)
	p.Out.Host = p.In.Host
	if x.route.rewriteHost {
		p.Out.Host = ""
	}
	p.Out.Trailer = p.In.Trailer // its values come after the body
	if x.upgrade = asksForWebsocket(p.Out); !x.upgrade {
		p.Out.Header.Del("Connection")
		p.Out.Header.Del("Upgrade")
	}

	if p.In.Header.Get("Expect") != "" {
		p.Out.Close = true // else the body is sent even if the upstream does not want it, to keep the connection
	}

	h := p.Out.Header
	if x.trusted() {
		x.plan.reserved.keep(h, p.In.Header)
	} else {
		x.plan.reserved.strip(h)
	}
	x.introduce(h, p.In)
	x.rewritten = true
}

// asksForWebsocket reports whether a request is for the one upgrade that is passed on.
func asksForWebsocket(r *http.Request) bool {
	return r.ContentLength == 0 && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// introduce says on whose behalf the request is made, in fields that hold nothing by now but what a trusted proxy said.
func (x *exchange) introduce(h http.Header, in *http.Request) {
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

// forwardedNode is an address as Forwarded has it (RFC 7239, section 6).
func forwardedNode(a netip.Addr) string {
	if a.Is6() {
		return `"[` + a.String() + `]"`
	}
	return a.String()
}

// add appends to a list, and makes all of its lines one.
func add(h http.Header, name, value string) {
	if prior := h[name]; len(prior) > 0 {
		value = strings.Join(prior, ", ") + ", " + value
	}
	h[name] = []string{value}
}

// trusted reports whether the peer is a proxy whose word is taken, by the rules that the request was judged by.
func (x *exchange) trusted() bool { return x.verdict.Set().Trusts(x.peer) }
