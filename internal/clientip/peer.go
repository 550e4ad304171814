package clientip

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/stint-limiter/stint/internal/syntax"
)

// PeerOf returns the address at the other end of a request's connection. For a Unix socket, it
// returns the zero Addr, because a client there can choose its own name, even one that looks like
// an address.
func PeerOf(r *http.Request) netip.Addr {
	if OnUnixSocket(r) {
		return netip.Addr{}
	}
	return ParsePeer(r.RemoteAddr)
}

// OnUnixSocket reports whether a request came over a Unix socket.
func OnUnixSocket(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && local.Network() == "unix"
}

// NamesLocal reports whether the host of a request, with or without a port, is an address or
// localhost. A web site can make its own name resolve to a loopback address, but it cannot use an
// address or localhost as its name. So servers that are only for this machine require such a host.
func NamesLocal(host string) bool {
	host = syntax.Host(host)
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost")
}
