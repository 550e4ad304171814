package dashboard

import (
	"fmt"
	"mime"
	"net/http"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/label"
)

// protect sets headers that make browsers run only scripts from the same origin, refuse to frame
// the page, and send no referrer.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}

// sameSite refuses requests that a page of another site sends from a user's browser. Such a page
// cannot read the answers, but without this check its requests could make changes or use up all
// streams.
func sameSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if callers.CrossSite(r) {
			answer.Refuse(w, http.StatusForbidden, "forbidden", "Requests from pages of other sites are not allowed.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

const (
	changesNothing = "Changes are disabled, because callers are not identified: " +
		"start the server without --no-admin-token, or set Who of dashboard.Config in your own program."
	needsName = "Changes require a token: Authorization: Bearer <token>."
	needsRole = "Changes require a token with the role operate; the token of %s has the role read."
)

// operator is the identified sender of a request. name is the sender's name, peer is the sender's
// address, and operates reports whether the sender may make changes.
type operator struct {
	name, peer string
	operates   bool
}

type operatorHandler func(w http.ResponseWriter, r *http.Request, by operator)

// requireOperator returns a handler for requests that make changes. The sender must have a name and
// the right to make changes, and the body must be declared as JSON, which no HTML form can do.
func (d *dashboard) requireOperator(act operatorHandler) http.HandlerFunc {
	return d.requireName(func(w http.ResponseWriter, r *http.Request, by operator) {
		if d.mayChange(w, r, by) {
			act(w, r, by)
		}
	})
}

// operatorOf returns the sender of a request. If the sender has no name, or if changes are
// disabled, it refuses the request and returns false.
func (d *dashboard) operatorOf(w http.ResponseWriter, r *http.Request) (by operator, ok bool) {
	if d.c.Who == nil || d.admin == nil {
		answer.Refuse(w, http.StatusForbidden, "forbidden", changesNothing)
		return by, false
	}
	name, operates := d.c.Who(r)
	if name == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
		answer.Refuse(w, http.StatusUnauthorized, "unauthorized", needsName)
		return by, false
	}
	return operator{name, callers.Peer(r), operates}, true
}

// mayChange reports whether the sender may make changes. If not, it logs the attempt and refuses
// the request.
func (d *dashboard) mayChange(w http.ResponseWriter, r *http.Request, by operator) bool {
	if !by.operates {
		text := fmt.Sprintf(needsRole, by.name)
		d.c.Logger.WarnContext(r.Context(), "audit", "who", label.Line(by.name), "what", r.URL.Path, "peer", by.peer,
			"result", text)
		answer.Refuse(w, http.StatusForbidden, "role", text)
	}
	return by.operates
}

// requireName returns a handler that passes a request to act if operatorOf accepts the sender and
// the body is declared as JSON. It refuses all other requests.
func (d *dashboard) requireName(act operatorHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by, ok := d.operatorOf(w, r)
		if !ok {
			return
		}
		if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil ||
			media != "application/json" {
			answer.Refuse(w, http.StatusUnsupportedMediaType, "media_type",
				"The body is not declared as JSON; want Content-Type: application/json.")
			return
		}
		act(w, r, by)
	}
}
