// Package clientip finds the client of a request behind proxies, and determines which part of its
// address counts as one client. All components that receive requests use it.
//
// Anyone can send a header that names an address. Only the part that trusted proxies wrote is
// trusted: the list of hops is read from its end, which the nearest proxy wrote, up to the first
// hop that is not trusted.
package clientip

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/textproto"

	"github.com/stint-limiter/stint/internal/syntax"
)

// DefaultHeader is the header that proxies are expected to write, unless [Config] names another.
const DefaultHeader = "X-Forwarded-For"

// Config determines which proxies are trusted to name the client of a request. The zero Config
// trusts none: the client is the peer.
type Config struct {
	// Trusted lists the trusted proxies, as [ParsePrefix] returns them. A client that connects from
	// one of these addresses can claim any address. An IPv4 prefix also covers the IPv4-mapped form
	// of its addresses; ::/0 covers no IPv4 address.
	Trusted []netip.Prefix
	// TrustUnix trusts peers without an address: any process that may connect to the Unix socket.
	TrustUnix bool
	// Header is the only header that is read, and the trusted proxies must write it. Valid headers
	// are X-Forwarded-For, which is the default, Forwarded (RFC 7239), and headers with a single
	// address, such as X-Real-IP. Other headers are not read, because a proxy that does not
	// overwrite them would pass on the client's value.
	Header string
	// IPv4Prefix and IPv6Prefix are the numbers of leading bits that identify a subject, at most 32
	// and 128; zero means 32 and 64.
	IPv4Prefix, IPv6Prefix int
}

// Header holds the values of a request's headers, one for each line, in the order of arrival.
// [net/http.Header] implements it.
type Header interface {
	Values(name string) []string
}

// Resolver finds the client of a request. It is immutable and safe for concurrent use.
type Resolver struct {
	trusted    prefixSet
	trustUnix  bool
	header     string
	last       func(string) (hop netip.Addr, rest string, more bool)
	single     bool
	ipv4, ipv6 int
}

// New returns a Resolver, or an error if the Header is not the name of one header.
func New(c Config) (*Resolver, error) {
	if c.Header != "" && !syntax.IsToken(c.Header) {
		return nil, fmt.Errorf("clientip: Header is %q; want the name of one header, such as %s", c.Header, DefaultHeader)
	}
	r := &Resolver{
		trusted:   newPrefixSet(c.Trusted),
		trustUnix: c.TrustUnix,
		header:    textproto.CanonicalMIMEHeaderKey(cmp.Or(c.Header, DefaultHeader)),
		last:      lastListed,
		ipv4:      cmp.Or(c.IPv4Prefix, 32),
		ipv6:      cmp.Or(c.IPv6Prefix, 64),
	}
	switch r.header {
	case DefaultHeader:
	case "Forwarded":
		r.last = lastForwarded
	default:
		r.single = true
	}
	return r, nil
}

// Trusts reports whether a peer is trusted. The zero Addr is a peer on a Unix socket.
func (r *Resolver) Trusts(peer netip.Addr) bool {
	if !peer.IsValid() {
		return r.trustUnix
	}
	return r.trusted.contains(canonical(peer))
}

// Client returns the address of the client for which peer forwards the request, or the address of
// peer itself if peer is not trusted. IPv4-mapped addresses are returned as IPv4, and zones are
// removed. The zero Addr means that the client is unknown: peer has no address, and is either not
// trusted or names no client.
//
// All lines of the header form one list, which is read from its end: the first hop that is not
// trusted is the client. If all are trusted, the client is the first hop of the list. A hop that is
// not an address, such as "unknown", ends the search: the client is the hop that wrote it. A header
// with a single address is not a list: its last value is the client.
//
// Client reads only as much of the header as it needs. If h is nil, there are no lines.
func (r *Resolver) Client(peer netip.Addr, h Header) netip.Addr {
	client := canonical(peer)
	if h == nil || !r.Trusts(client) {
		return client
	}
	lines := h.Values(r.header)
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; {
			var hop netip.Addr
			hop, rest, more = r.last(rest)
			if !hop.IsValid() {
				return client
			}
			client = hop
			if r.single || !r.trusted.contains(hop) {
				return client
			}
		}
	}
	return client
}

// canonical returns the canonical form of an address: IPv4 unmapped, no zone.
func canonical(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
