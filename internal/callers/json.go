package callers

import (
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/logsample"
)

// JSON decides which callers may post JSON to a listener. It is safe for concurrent use.
type JSON struct {
	public   bool
	notLocal string // the message to callers that are not on this host
	logger   *slog.Logger
	refused  logsample.Sampler
}

// NewJSON returns a JSON. If public is true, because tokens or certificates have already been
// checked or are not required, it admits every caller. Otherwise it admits only callers on this
// host, and its answer to all others mentions flag, the command-line flag that sets tokens.
func NewJSON(public bool, flag string, logger *slog.Logger) *JSON {
	return &JSON{public: public, logger: logger, notLocal: "no token is configured, so only direct connections over loopback " +
		"(localhost, 127.0.0.1) are served; start the server with " + flag + ", or with --api-public to serve everyone"}
}

// Admit reports whether to serve a request. If it returns false, it has already answered the
// request, without reading its body.
func (j *JSON) Admit(w http.ResponseWriter, r *http.Request) bool {
	if !j.public && !Local(r) {
		if n, ok := j.refused.Allow(1, time.Second); ok {
			j.logger.Warn("stint: refused a caller: "+j.notLocal, "peer", Peer(r), "unlogged", n)
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		answer.Refuse(w, http.StatusUnauthorized, "unauthorized", "The caller is refused: "+j.notLocal+".")
		return false
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		answer.Refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "Use POST.")
		return false
	}
	if CrossSite(r) {
		answer.Refuse(w, http.StatusForbidden, "forbidden", "Requests from pages of other sites are not allowed.")
		return false
	}
	// Browsers let a page send application/json to another site only after a preflight request to
	// that site.
	if why := badType(r); why != "" {
		answer.Refuse(w, http.StatusUnsupportedMediaType, "unsupported_media_type", why)
		return false
	}
	return true
}

// badType returns "" if the type and the encoding of the body are valid. Otherwise, it returns a
// message that says how to send the body.
func badType(r *http.Request) string {
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch charset, ok := parameters["charset"]; {
	case err != nil || media != "application/json" || ok && !strings.EqualFold(charset, "utf-8"):
		return "Use Content-Type: application/json, in UTF-8."
	case r.Header.Get("Content-Encoding") != "":
		return "Send the body without Content-Encoding."
	}
	return ""
}
