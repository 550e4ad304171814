package callers

import (
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/seldom"
)

// JSON decides who may post JSON to a listener that others than its callers may reach. It is safe for concurrent use.
type JSON struct {
	public  bool
	logger  *slog.Logger
	refused seldom.Gate
}

// NewJSON returns one that lets everybody through if public, because tokens or certificates are checked before or nobody
// wants any. Otherwise it lets callers on this host through.
func NewJSON(public bool, logger *slog.Logger) *JSON { return &JSON{public: public, logger: logger} }

// notLocal is why a caller is refused.
const notLocal = "no token is configured, so that only callers on this host are answered, who call it localhost or by its address"

// Admit reports whether a request is to be answered. If not, it has been refused, and nothing of its body was read.
func (j *JSON) Admit(w http.ResponseWriter, r *http.Request) bool {
	if !j.public && !Local(r) {
		if n, ok := j.refused.Take(1, time.Second); ok {
			j.logger.Warn("stint: a caller was refused: "+notLocal, "peer", Peer(r), "unlogged", n)
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		answer.Refuse(w, http.StatusUnauthorized, "unauthorized", "The caller is refused: "+notLocal+".")
		return false
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		answer.Refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "Want POST.")
		return false
	}
	if CrossSite(r) {
		answer.Refuse(w, http.StatusForbidden, "forbidden", "This is not for pages of other sites.")
		return false
	}
	// A page in a browser cannot send this type to another site without being asked first.
	if why := badType(r); why != "" {
		answer.Refuse(w, http.StatusUnsupportedMediaType, "unsupported_media_type", why)
		return false
	}
	return true
}

// badType says what is wrong with the type of a body, or "".
func badType(r *http.Request) string {
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch charset, ok := parameters["charset"]; {
	case err != nil || media != "application/json" || ok && !strings.EqualFold(charset, "utf-8"):
		return "Want Content-Type: application/json, in UTF-8."
	case r.Header.Get("Content-Encoding") != "":
		return "Want a body without Content-Encoding."
	}
	return ""
}
