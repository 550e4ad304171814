package dashboard

import (
	"mime"
	"net/http"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/callers"
)

// protect has browsers run nothing that is not ours, show it in nobody's frame, and tell nobody where they are.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}

// sameSite refuses what a page of another site asks for in somebody's browser. It could not read the answer, but it
// could change something, and take up all streams.
func (d *Dashboard) sameSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site") // which browsers send, and scripts cannot
		if d.origins.Check(r) != nil || site != "" && site != "same-origin" && site != "none" {
			answer.Refuse(w, http.StatusForbidden, "forbidden", "This is not for pages of other sites.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

const (
	changesNothing = "Nothing can be changed here, because nobody can say who they are: " +
		"start the server with --admin-token-file, or set Who of dashboard.Config in a program of your own."
	needsName = "To change something needs a token: Authorization: Bearer <token>."
)

// writer is who changes something, and whence.
type writer struct{ name, peer string }

// writes is a handler of requests that change something. They have to come from somebody with a name, and be JSON: that
// no form can send.
func (d *Dashboard) writes(act func(w http.ResponseWriter, r *http.Request, by writer)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if d.c.Who == nil || d.c.Desk == nil {
			answer.Refuse(w, http.StatusForbidden, "forbidden", changesNothing)
			return
		}
		name := d.c.Who(r)
		if name == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer.Refuse(w, http.StatusUnauthorized, "unauthorized", needsName)
			return
		}
		if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
			answer.Refuse(w, http.StatusUnsupportedMediaType, "media_type", "The body is not said to be JSON; want Content-Type: application/json.")
			return
		}
		act(w, r, writer{name, callers.Peer(r)})
	}
}
