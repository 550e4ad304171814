package callers

import (
	"net/http"
	"net/url"
)

// CrossSite reports whether a page of another site makes a request in somebody's browser: it has the network and the
// machine of that person, and says so in fields that scripts cannot set. Programs that are no browsers send none.
func CrossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "": // without TLS, and not on this host, browsers do not send it
		origin := r.Header.Get("Origin")
		if origin == "" {
			return false
		}
		u, err := url.Parse(origin)
		return err != nil || u.Host == "" || u.Host != r.Host
	}
	return true
}

// Navigates reports whether a request is that of somebody who follows a link, to see what is there. Such a request has
// no token, and the page that it came from does not see the answer.
func Navigates(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate"
}
