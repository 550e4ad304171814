package dashboard

import (
	"fmt"
	"mime"
	"net/http"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/label"
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
func sameSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if callers.CrossSite(r) {
			answer.Refuse(w, http.StatusForbidden, "forbidden", "This is not for pages of other sites.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

const (
	changesNothing = "Nothing can be changed here, because nobody can say who they are: " +
		"start the server without --no-admin-token, or set Who of dashboard.Config in a program of your own."
	needsName = "To change something needs a token: Authorization: Bearer <token>."
	needsRole = "To change something needs a token with the role operate, and that of %s has the role read."
)

// writer is who changes something, and whence.
type writer struct {
	name, peer string
	operates   bool
}

// writes is a handler of requests that change something. They have to come from somebody with a name who may do so, and be
// JSON: that no form can send.
func (d *Dashboard) writes(act func(w http.ResponseWriter, r *http.Request, by writer)) http.HandlerFunc {
	return d.posts(func(w http.ResponseWriter, r *http.Request, by writer) {
		if d.may(w, r, by) {
			act(w, r, by)
		}
	})
}

// may reports whether somebody may change something. If not, it says so, also to the log.
func (d *Dashboard) may(w http.ResponseWriter, r *http.Request, by writer) bool {
	if !by.operates {
		text := fmt.Sprintf(needsRole, by.name)
		d.c.Logger.WarnContext(r.Context(), "audit", "who", label.Line(by.name), "what", r.URL.Path, "peer", by.peer, "result", text)
		answer.Refuse(w, http.StatusForbidden, "role", text)
	}
	return by.operates
}

// posts is a handler of requests with a body, by somebody with a name.
func (d *Dashboard) posts(act func(w http.ResponseWriter, r *http.Request, by writer)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if d.c.Who == nil || d.c.Desk == nil {
			answer.Refuse(w, http.StatusForbidden, "forbidden", changesNothing)
			return
		}
		name, operates := d.c.Who(r)
		if name == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer.Refuse(w, http.StatusUnauthorized, "unauthorized", needsName)
			return
		}
		if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
			answer.Refuse(w, http.StatusUnsupportedMediaType, "media_type", "The body is not said to be JSON; want Content-Type: application/json.")
			return
		}
		act(w, r, writer{name, callers.Peer(r), operates})
	}
}
