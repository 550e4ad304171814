package httplimit

import (
	"bytes"
	"context"
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
// unknown length, such as a stream, or where nothing would bound the time.
func (x *exchange) Digest() (string, error) {
	r := x.request
	if r.ContentLength < 0 || r.ContentLength > maxDigest || len(r.Trailer) > 0 {
		return "", nil
	}
	h := sha256.New()
	_, _ = io.WriteString(h, strconv.Itoa(len(r.URL.RawQuery))+":"+r.URL.RawQuery)
	if r.ContentLength > 0 && r.Body != nil {
		conn := http.NewResponseController(x.writer)
		if conn.SetReadDeadline(time.Now().Add(digestTime)) != nil {
			return "", nil
		}
		var b bytes.Buffer // grows with what arrives, not with what was announced
		if _, err := io.CopyN(&b, r.Body, r.ContentLength); err != nil {
			return "", &bodyError{err}
		}
		_ = conn.SetReadDeadline(time.Time{}) // nothing is left to wait for
		_, _ = h.Write(b.Bytes())
		r.Body = &struct {
			io.Reader
			io.Closer
		}{io.MultiReader(&b, r.Body), r.Body}
	}
	return string(h.Sum(nil)), nil
}

// bodyError means that the body of a request could not be read before the request was decided. It
// is the client's fault, like a closed connection.
type bodyError struct{ cause error }

func (e *bodyError) Error() string   { return "httplimit: the body of the request: " + e.cause.Error() }
func (e *bodyError) Unwrap() []error { return []error{e.cause, context.Canceled} }

// notice is the answer to the client.
func (e *bodyError) notice() *notice {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(e.cause, &tooLarge):
		return largeNotice
	case errors.Is(e.cause, os.ErrDeadlineExceeded):
		return slowNotice
	}
	return malformedNotice
}
