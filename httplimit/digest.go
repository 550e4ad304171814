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
	// maxDigest is the longest body in bytes that a request id is derived from.
	maxDigest = 64 << 10
	// digestTime is how long such a body may take to arrive.
	digestTime = 10 * time.Second
)

// Digest implements the Content of [policy.Input]. It reads all of the body, and puts it back for
// the handler. That takes memory and time, so it derives nothing from a body that is too long or of
// unknown length, such as a stream, or where nothing would bound the time. If the body cannot be
// read, the request is decided without an id, and only then answered: those who are banned or
// denied hear nothing else, and the others are charged.
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
		var b bytes.Buffer // grows with what arrives, not with what was announced
		if _, err := io.CopyN(&b, r.Body, r.ContentLength); err != nil {
			x.unread = err
			return ""
		}
		_ = conn.SetReadDeadline(time.Time{}) // nothing is left to wait for
		_, _ = h.Write(b.Bytes())
		r.Body = &putBack{&b, r.Body}
	}
	return string(h.Sum(nil))
}

// answerUnread answers a request that is allowed, and whose body could not be read.
func (x *exchange) answerUnread(w http.ResponseWriter, r *http.Request) {
	n := malformedNotice
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(x.unread, &tooLarge):
		n = largeNotice
	case errors.Is(x.unread, os.ErrDeadlineExceeded):
		n = slowNotice
	}
	x.rules, x.rule = nil, nil // no limit is to blame
	x.write(w, r, n, 0)
}
