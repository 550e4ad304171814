package callers

import (
	"net/http"

	"github.com/stint-limiter/stint/internal/clientip"
)

// Local reports whether a caller is on this host. What a proxy on it forwards is not, nor a page in a browser on it that was
// fetched under another name: one can have a name of its own lead to a loopback address.
func Local(r *http.Request) bool {
	for _, name := range [...]string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Via"} {
		if _, ok := r.Header[name]; ok {
			return false
		}
	}
	return clientip.OnUnixSocket(r) || clientip.PeerOf(r).IsLoopback() && clientip.NamesLocal(r.Host)
}

// Peer is the other end of a request's connection, as logs show it.
func Peer(r *http.Request) string {
	if peer := clientip.PeerOf(r); peer.IsValid() {
		return peer.String()
	}
	return "unix"
}
