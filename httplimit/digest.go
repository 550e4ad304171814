package httplimit

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

const (
	// maxDigest is the maximum length in bytes of a body from which a request id is derived.
	maxDigest = 64 << 10
	// digestTime is the time limit for the part of a body that is read before the decision.
	digestTime = 10 * time.Second
)

// Digest implements [policy.Input.Content]. It returns a hash of the query and the body, and puts
// the body back for the handler. To limit the memory and time that this takes, Digest returns "" if
// the body is too long or has an unknown length, or if no read deadline can be set. It also returns
// "" if a trailer follows the body. If the body cannot be read, the request is still decided,
// without an id: banned and denied clients get their usual answer, and other clients are charged.
func (x *exchange) Digest() string {
	r := x.request
	if r.ContentLength < 0 || r.ContentLength > maxDigest || len(r.Trailer) > 0 {
		return ""
	}
	h := sha256.New()
	_, _ = io.WriteString(h, strconv.Itoa(len(r.URL.RawQuery))+":"+r.URL.RawQuery)
	if r.ContentLength > 0 && r.Body != nil {
		conn := http.NewResponseController(x.writer)
		soon, _ := readDeadlines(r)
		if conn.SetReadDeadline(soon) != nil {
			return ""
		}
		var b bytes.Buffer // grows with the received bytes, not the announced length
		if _, err := io.CopyN(&b, r.Body, r.ContentLength); err != nil {
			x.unread = err
			return ""
		}
		_ = conn.SetReadDeadline(time.Time{}) // nothing is left to read
		_, _ = h.Write(b.Bytes())
		r.Body = &putBack{&b, r.Body}
	}
	return string(h.Sum(nil))
}

// answerUnread answers a request that was allowed but whose body could not be read.
func (x *exchange) answerUnread(w http.ResponseWriter, r *http.Request) {
	n := malformedNotice
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(x.unread, &tooLarge):
		n = largeNotice
	case errors.Is(x.unread, os.ErrDeadlineExceeded):
		n = slowNotice
	}
	x.rules, x.rule = nil, nil // no limit caused the refusal
	x.write(w, r, n, 0)
}
