package callers

import (
	"net/http"
	"net/url"
)

// CrossSite reports whether a request comes from a browser, from a page with another origin.
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

// Navigates reports whether a browser sends a request to open a page, for example because the user
// follows a link. Such a request has no token, and a page that contains the link cannot read the
// answer.
func Navigates(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate"
}
