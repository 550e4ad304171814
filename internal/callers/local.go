package callers

import (
	"net/http"

	"github.com/stint-limiter/stint/internal/clientip"
)

// Local reports whether a caller is on this host. It is not if a proxy on this host forwards it,
// nor if it is a page in a local browser that was fetched under another name: anyone can let a name
// of their own resolve to a loopback address.
func Local(r *http.Request) bool {
	for _, name := range [...]string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Via"} {
		if _, ok := r.Header[name]; ok {
			return false
		}
	}
	return clientip.OnUnixSocket(r) || clientip.PeerOf(r).IsLoopback() && clientip.NamesLocal(r.Host)
}

// Peer is the other end of a request's connection, for logs.
func Peer(r *http.Request) string {
	if peer := clientip.PeerOf(r); peer.IsValid() {
		return peer.String()
	}
	return "unix"
}
