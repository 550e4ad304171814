package callers

import (
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/logsample"
)

// Local reports whether a caller is on this host. It reports false if the header shows that a proxy
// forwarded the request, because the proxy may be on this host. It also reports false for requests
// from a page that a local browser has loaded under another host name: a site can make its own name
// resolve to a loopback address.
func Local(r *http.Request) bool {
	for _, name := range [...]string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Via"} {
		if _, ok := r.Header[name]; ok {
			return false
		}
	}
	return clientip.OnUnixSocket(r) || clientip.PeerOf(r).IsLoopback() && clientip.NamesLocal(r.Host)
}

// LocalOnly returns middleware that serves only callers on this host. It answers other callers with
// the message, and logs at most one refusal per second. place is the name of the requested
// component in the log, such as "the dashboard".
func LocalOnly(logger *slog.Logger, place, message string) func(next http.Handler) http.Handler {
	var refused logsample.Sampler
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if Local(r) {
				next.ServeHTTP(w, r)
				return
			}
			if n, ok := refused.Allow(1, time.Second); ok {
				logger.Warn("stint: refused a caller that is not on this host", "of", place, "peer", Peer(r),
					"unlogged", n)
			}
			answer.Refuse(w, http.StatusForbidden, "forbidden", message)
		})
	}
}

// Peer returns the address of a request's peer, for logs. If the peer has no address, it returns
// "unix".
func Peer(r *http.Request) string {
	if peer := clientip.PeerOf(r); peer.IsValid() {
		return peer.String()
	}
	return "unix"
}

// CrossSite reports whether a browser sent a request on behalf of a page from another origin.
// Browsers report this in header fields that scripts cannot set. Other programs do not send these
// fields.
func CrossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "": // browsers omit this field in requests without TLS, except to localhost
		origin := r.Header.Get("Origin")
		if origin == "" {
			return false
		}
		u, err := url.Parse(origin)
		return err != nil || u.Host == "" || u.Host != r.Host
	}
	return true
}

// Navigates reports whether a request comes from a browser that is opening a page, for example
// because the user followed a link. Such a request has no token, and a page that contains the link
// cannot read the answer.
func Navigates(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate"
}
