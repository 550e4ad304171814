package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/syntax"
)

// requestID configures how repeats are recognized: by the id in a header or, if derive is set and
// the request has no id, by a derived id. life is the time for which an id from the header is
// remembered, and derive is the time for a derived id.
type requestID struct {
	header       string
	life, derive time.Duration
}

// of returns the ID of a request, and how long it is remembered. The ID is "" if the request has
// none. It depends on the caller, method, host and path: if one of them differs, the same header
// value gives a different ID. The port of the host is ignored, because only some clients send it.
func (r *requestID) of(f *facts, v *Verdict, subject string) (id string, life time.Duration) {
	if r == nil {
		return "", 0
	}
	value, life := "", r.life
	if r.header != "" {
		value = f.header(r.header)
	}
	derived := value == ""
	if derived {
		if r.derive == 0 || v.enforced == 0 || f.in.Content == nil {
			return "", 0
		}
		v.waited = true
		if value = f.in.Content.Digest(); value == "" {
			return "", 0
		}
		life = r.derive
	}
	h := sha256.New()
	write := func(part string) { _, _ = io.WriteString(h, strconv.Itoa(len(part))+":"+part) }
	if derived {
		// The charge may also depend on header fields. If the charges of two requests differ, the
		// requests are different, even if everything else is the same.
		write("derived")
		for i := range v.Results[:v.enforced] {
			c := &v.Results[i].Claim
			write(c.Subject)
			write(c.Scope)
			write(strconv.FormatInt(c.Cost, 10))
		}
	}
	write(subject)
	write(f.first.method)
	write(strings.ToLower(syntax.Host(f.in.Host)))
	write(value)
	write(f.in.Path)
	write(f.in.RawPath)
	return hex.EncodeToString(h.Sum(nil)[:16]), life
}
