package httplimit

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint/policy"
)

// Body implements [policy.Input.Content]. It puts back what it reads. If it cannot read the body,
// it sets x.unread, as Digest does. It does not read a compressed body.
func (x *exchange) Body(most int64) (head []byte, length int64) {
	r := x.request
	encoding := r.Header.Get("Content-Encoding")
	if r.Body == nil || r.ContentLength == 0 || encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, 0
	}
	conn := http.NewResponseController(x.writer)
	soon, rest := readDeadlines(r)
	bounded := conn.SetReadDeadline(soon) == nil // if not, the server must limit the time
	var b bytes.Buffer
	_, err := io.CopyN(&b, r.Body, most+1)
	if x.whole = errors.Is(err, io.EOF); x.whole {
		rest = time.Time{} // nothing is left to read
	}
	if err != nil && !x.whole {
		x.unread = err
	} else if bounded {
		_ = conn.SetReadDeadline(rest)
	}
	x.head, x.rest = b.Bytes(), r.Body
	r.Body = &putBack{io.MultiReader(bytes.NewReader(x.head), r.Body), r.Body}
	length = r.ContentLength
	if x.whole {
		r.Body = &putBack{bytes.NewReader(x.head), x.rest}
		length = int64(len(x.head))
	}
	return x.head[:min(int64(len(x.head)), most)], length
}

// readDeadlines returns two deadlines: one for the part of a body that is read before the decision,
// and one for the rest. The zero time means no deadline. If the server has a ReadTimeout, no
// deadline is later than ReadTimeout from now.
func readDeadlines(r *http.Request) (soon, rest time.Time) {
	now := time.Now()
	soon = now.Add(digestTime)
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ReadTimeout > 0 {
		if rest = now.Add(s.ReadTimeout); rest.Before(soon) {
			soon = rest
		}
	}
	return soon, rest
}

// putBack is a body that was read, in part or to its end, and put back. If it was read to its end,
// Reader does not touch the original body again. The server closes the original body when the
// response begins, so a proxy that read it later would get an error, and its transport would close
// the connection to the upstream.
type putBack struct {
	io.Reader
	io.Closer
}

// askForUsage returns the request for a handler whose response is metered. It asks for an
// uncompressed response and, if the policy injects the option, for a stream that reports its usage.
func (x *exchange) askForUsage(r *http.Request, m policy.Meter) *http.Request {
	next := r.WithContext(r.Context())
	next.Header = maps.Clone(r.Header)
	next.Header.Set("Accept-Encoding", "identity")
	if !x.whole {
		return next
	}
	body, changed := m.Inject(x.head)
	if !changed {
		return next
	}
	next.Body = &putBack{bytes.NewReader(body), x.rest}
	if r.ContentLength > 0 {
		next.ContentLength = int64(len(body))
		next.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return next
}
