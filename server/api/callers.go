package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/stint-limiter/stint/internal/clientip"
)

// callers is who may ask.
type callers struct {
	tokens [][sha256.Size]byte
	public bool
}

func newCallers(tokens []string, public bool) callers {
	c := callers{public: public}
	for _, t := range tokens {
		c.tokens = append(c.tokens, sha256.Sum256([]byte(t)))
	}
	return c
}

// admit returns why a caller is refused, or "".
func (c *callers) admit(r *http.Request) (refusal string) {
	switch {
	case c.public:
		return ""
	case len(c.tokens) == 0:
		if local(r) {
			return ""
		}
		return "no token is configured, so that only callers on this host are answered, who call it localhost or by its address"
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return `no token; want the header "Authorization: Bearer ..."`
	}
	// All are compared, each in the same time whatever it is, so that none can be guessed bit by bit.
	sum, known := sha256.Sum256([]byte(strings.TrimLeft(token, " "))), 0
	for i := range c.tokens {
		known |= subtle.ConstantTimeCompare(sum[:], c.tokens[i][:])
	}
	if known == 0 {
		return "the token is not known"
	}
	return ""
}

// local reports whether a caller is on this host: what a proxy on it forwards is not, nor a page in a browser on it that was
// fetched under another name.
func local(r *http.Request) bool {
	for _, name := range [...]string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Via"} {
		if _, ok := r.Header[name]; ok {
			return false
		}
	}
	peer, unix := clientip.PeerOf(r), clientip.OnUnixSocket(r)
	return unix || peer.IsLoopback() && clientip.NamesLocal(r.Host)
}

// peerName is a peer as logs show it.
func peerName(r *http.Request) string {
	peer, unix := clientip.PeerOf(r), clientip.OnUnixSocket(r)
	if unix || !peer.IsValid() {
		return "unix"
	}
	return peer.String()
}
