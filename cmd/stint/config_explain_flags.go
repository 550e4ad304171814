package main

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/stint-limiter/stint/internal/syntax"
)

// requestFlag is a request, such as "GET /search", "/search" or "POST https://example.com/search".
type requestFlag struct{ method, host, path, raw string }

// UnmarshalText parses a method and a path or URL. The default method is GET.
func (r *requestFlag) UnmarshalText(text []byte) error {
	parts := strings.Fields(string(text))
	if len(parts) == 1 {
		parts = []string{http.MethodGet, parts[0]}
	}
	if len(parts) != 2 {
		return fmt.Errorf("%q has %d words; want a method and a path, such as 'GET /search'", text, len(parts))
	}
	method, target := parts[0], parts[1]
	if !syntax.IsToken(method) {
		return fmt.Errorf("invalid method %q; want one such as GET or POST before the path", method)
	}
	if upper := strings.ToUpper(method); method != upper {
		return fmt.Errorf("methods are case-sensitive: %q is not %s; want '%s %s'", method, upper, upper, target)
	}
	u, err := url.ParseRequestURI(target)
	switch {
	case err != nil || !strings.HasPrefix(target, "/") && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https"):
		return fmt.Errorf("%q is neither a path nor a URL; want one such as /search or https://example.com/search",
			target)
	case u.Path == "":
		u.Path = "/"
	}
	*r = requestFlag{method, u.Host, u.Path, u.RawPath}
	return nil
}

type headerFlag struct{ name, value string }

// UnmarshalText parses a name and a value, separated by a colon.
func (h *headerFlag) UnmarshalText(text []byte) error {
	name, value, ok := strings.Cut(string(text), ":")
	if !ok {
		return fmt.Errorf("no colon in %q; want a header field such as 'X-API-Key: k1'", text)
	}
	if !syntax.IsToken(name) {
		return fmt.Errorf("invalid header name %q; want a header field such as 'X-API-Key: k1'", name)
	}
	*h = headerFlag{http.CanonicalHeaderKey(name), strings.TrimSpace(value)}
	return nil
}

type claimFlag struct{ name, value string }

// UnmarshalText parses a name and a value, separated by an equals sign.
func (c *claimFlag) UnmarshalText(text []byte) error {
	name, value, ok := strings.Cut(string(text), "=")
	if !ok || name == "" {
		return fmt.Errorf("invalid claim %q; want a name, an equals sign and a value, such as plan=pro", text)
	}
	*c = claimFlag{name, value}
	return nil
}

const unixPeer = "unix"

// peerFlag is the remote end of a connection. The zero value means a Unix socket.
type peerFlag struct{ addr netip.Addr }

// UnmarshalText parses an IP address, or "unix".
func (p *peerFlag) UnmarshalText(text []byte) error {
	if string(text) == unixPeer {
		*p = peerFlag{}
		return nil
	}
	if withPort, err := netip.ParseAddrPort(string(text)); err == nil {
		return fmt.Errorf("%q has a port; want only the address, %s", text, withPort.Addr())
	}
	addr, err := netip.ParseAddr(string(text))
	if err != nil {
		return fmt.Errorf("invalid address %q; want one such as 203.0.113.9 or 2001:db8::1, or unix", text)
	}
	p.addr = addr
	return nil
}
