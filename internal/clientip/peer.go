package clientip

import (
	"net"
	"net/http"
	"net/netip"
)

// PeerOf returns the address at the other end of a request's connection. A client on a Unix socket chooses its name
// itself, which may look like an address: it has none.
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
