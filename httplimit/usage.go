package httplimit

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/stint-limiter/stint/policy"
)

// Body implements the Content of [policy.Input]. It puts back what it reads. A body that does not
// arrive is dealt with as by Digest. Nothing is read of a compressed one.
func (x *exchange) Body(most int64) (head []byte, length int64) {
	r := x.request
	if r.Body == nil || r.ContentLength == 0 || r.Header.Get("Content-Encoding") != "" {
		return nil, 0
	}
	conn := http.NewResponseController(x.writer)
	bounded := conn.SetReadDeadline(time.Now().Add(digestTime)) == nil // else by the server
	var b bytes.Buffer
	_, err := io.CopyN(&b, r.Body, most+1)
	x.whole = errors.Is(err, io.EOF)
	if err != nil && !x.whole {
		x.unread = err
	} else if bounded {
		_ = conn.SetReadDeadline(time.Time{})
	}
	x.head, x.rest = b.Bytes(), r.Body
	r.Body = &putBack{io.MultiReader(bytes.NewReader(x.head), r.Body), r.Body}
	length = r.ContentLength
	if x.whole {
		length = int64(len(x.head))
	}
	return x.head[:min(int64(len(x.head)), most)], length
}

// putBack is a body of which something was read, and put back.
type putBack struct {
	io.Reader
	io.Closer
}

// askForUsage returns the request as the handler gets it if its response is to be read: it asks for
// no compression and, if the policy wants that, for a stream that says what was used.
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
	next.Body = &putBack{io.MultiReader(bytes.NewReader(body), x.rest), x.rest}
	if r.ContentLength > 0 {
		next.ContentLength = int64(len(body))
		next.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return next
}
