package httplimit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/stint-limiter/stint/policy"
)

// recorder is a ResponseWriter that sees what becomes of a request: the status, the length of the body, and what the
// response says of its true cost. What it wraps stays within reach of [http.ResponseController].
type recorder struct {
	http.ResponseWriter
	costHeader string // "" if there is none
	noBody     bool   // what is written is not sent

	status   int
	bytes    int64
	cost     string
	returned bool // the handler has, and did not panic
}

// wrapped returns the recorder with exactly those abilities of the writer that handlers ask for by their type: one
// that cannot flush must not look as if it could.
func (r *recorder) wrapped() http.ResponseWriter {
	_, flushes := r.ResponseWriter.(http.Flusher)
	_, hijacks := r.ResponseWriter.(http.Hijacker)
	switch {
	case flushes && hijacks:
		return struct {
			*recorder
			http.Flusher
			http.Hijacker
		}{r, flusher{r}, hijacker{r}}
	case flushes:
		return struct {
			*recorder
			http.Flusher
		}{r, flusher{r}}
	case hijacks:
		return struct {
			*recorder
			http.Hijacker
		}{r, hijacker{r}}
	}
	return r
}

// Unwrap is for [http.ResponseController].
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (r *recorder) WriteHeader(status int) {
	r.takeCost()
	if r.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (r *recorder) Write(p []byte) (int, error) {
	r.begin()
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// WriteString implements [io.StringWriter].
func (r *recorder) WriteString(s string) (int, error) {
	r.begin()
	n, err := io.WriteString(r.ResponseWriter, s)
	r.bytes += int64(n)
	return n, err
}

// ReadFrom implements [io.ReaderFrom]: the writer sees the source itself, so that a file can go from the disk to the
// network by the shortest way.
func (r *recorder) ReadFrom(source io.Reader) (int64, error) {
	r.begin()
	var n int64
	var err error
	if w, ok := r.ResponseWriter.(io.ReaderFrom); ok {
		n, err = w.ReadFrom(source)
	} else {
		n, err = io.Copy(r.ResponseWriter, source)
	}
	r.bytes += n
	return n, err
}

// FlushError is for [http.ResponseController].
func (r *recorder) FlushError() error {
	before := r.status
	r.begin()
	err := http.NewResponseController(r.ResponseWriter).Flush()
	if errors.Is(err, errors.ErrUnsupported) {
		r.status = before
	}
	return err
}

// begin is the first of the body, which sends the header.
func (r *recorder) begin() {
	if r.status == 0 {
		r.takeCost()
		r.status = http.StatusOK
	}
}

// takeCost takes the true cost out of the header.
func (r *recorder) takeCost() {
	if r.costHeader == "" {
		return
	}
	h := r.Header()
	for _, key := range [...]string{r.costHeader, http.TrailerPrefix + r.costHeader} {
		if values := h[key]; len(values) > 0 {
			r.cost = values[0]
		}
		delete(h, key)
	}
}

// outcome is what became of the request. A cost may also be told after the body, when it is known: it is not sent as a
// trailer either.
func (r *recorder) outcome() policy.Outcome {
	r.takeCost()
	o := policy.Outcome{Status: r.status, Bytes: r.bytes, Cost: r.cost}
	switch {
	case !r.returned:
		o.Status = http.StatusInternalServerError
	case o.Status == 0:
		o.Status = http.StatusOK
	}
	if r.noBody {
		o.Bytes = 0
	}
	return o
}

// flusher is the ability to flush.
type flusher struct{ *recorder }

func (f flusher) Flush() {
	f.begin()
	f.ResponseWriter.(http.Flusher).Flush()
}

// hijacker is the ability to take over the connection. The status is then 101 unless another one was written, and what
// is sent from then on is not counted.
type hijacker struct{ *recorder }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := h.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil && h.status == 0 {
		h.status = http.StatusSwitchingProtocols
	}
	return conn, buffer, err
}
