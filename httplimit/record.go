package httplimit

import (
	"context"
	"errors"
	"io"
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
// network by the shortest way. A source that has nothing, or fails at once, begins no response.
func (r *recorder) ReadFrom(source io.Reader) (int64, error) {
	if r.status == 0 {
		r.takeCost()
	}
	var n int64
	var err error
	if w, ok := r.ResponseWriter.(io.ReaderFrom); ok {
		n, err = w.ReadFrom(source)
	} else {
		n, err = io.Copy(r.ResponseWriter, source)
	}
	if n > 0 {
		r.begin()
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

// statusGone is the status of a request whose client went away: nginx has it, HTTP has none.
const statusGone = 499

// outcome is what became of the request in whose context it was served. A panic has the status that was sent before, else
// 500. A failure is the client's own if it has hung up: who could make a request fail could have it refunded.
// A cost may also be told after the body, when it is known: it is not sent as a trailer either.
func (r *recorder) outcome(ctx context.Context) policy.Outcome {
	r.takeCost()
	o := policy.Outcome{Status: r.status, Bytes: r.bytes, Cost: r.cost}
	switch {
	case o.Status != 0:
	case r.returned:
		o.Status = http.StatusOK
	default:
		o.Status = http.StatusInternalServerError
	}
	if o.Status >= http.StatusInternalServerError && errors.Is(ctx.Err(), context.Canceled) {
		o.Status = statusGone
	}
	if r.noBody {
		o.Bytes = 0
	}
	return o
}
