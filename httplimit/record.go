package httplimit

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"os"

	"github.com/stint-limiter/stint/internal/stall"
	"github.com/stint-limiter/stint/internal/words"
	"github.com/stint-limiter/stint/policy"
)

// recorder is a ResponseWriter that sees what becomes of a request: the status, the length of the
// body, and what the response says of its true cost. What it wraps stays within reach of
// [http.ResponseController].
type recorder struct {
	http.ResponseWriter
	costHeader string       // "" if there is none
	noBody     bool         // what is written is not sent
	unread     bool         // the client did not send what it announced
	meter      policy.Meter // reads what the response says of its usage; nil if it is not read

	watch    stall.Watch
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
		r.meterHeader()
	}
	r.watch.Begin() // an informational response is sent at once
	defer r.watch.End()
	r.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (r *recorder) Write(p []byte) (sent int, err error) {
	sent, err = r.send(len(p), func(from, to int) (int, error) { return r.ResponseWriter.Write(p[from:to]) })
	r.meterBody(p)
	return sent, err
}

// WriteString implements [io.StringWriter].
func (r *recorder) WriteString(s string) (sent int, err error) {
	if r.meter != nil {
		return r.Write([]byte(s))
	}
	return r.send(len(s), func(from, to int) (int, error) { return io.WriteString(r.ResponseWriter, s[from:to]) })
}

// send writes so many bytes of the body in pieces, each of which has its time.
func (r *recorder) send(size int, write func(from, to int) (int, error)) (sent int, err error) {
	r.begin()
	for {
		to := min(sent+stall.Piece, size)
		if !r.watch.Begin() {
			return sent, os.ErrDeadlineExceeded
		}
		n, err := write(sent, to)
		r.watch.End()
		r.bytes += int64(n)
		if sent += n; err != nil || sent < to || sent == size {
			return sent, err
		}
	}
}

// ReadFrom implements [io.ReaderFrom]: the writer sees a file itself, so that it can go from the
// disk to the network by the shortest way. An empty or broken source begins no response.
func (r *recorder) ReadFrom(source io.Reader) (total int64, err error) {
	if r.status == 0 {
		r.takeCost()
	}
	w, ok := r.ResponseWriter.(io.ReaderFrom)
	if !ok || r.meter != nil {
		return io.Copy(struct{ io.Writer }{r}, source)
	}
	part, ok := source.(*io.LimitedReader)
	if !ok {
		part = &io.LimitedReader{R: source, N: math.MaxInt64}
	}
	if !isRegular(part.R) {
		return r.readFrom(w, &watchedReader{source, &r.watch})
	}
	for {
		most := min(part.N, stall.Piece)
		n, err := r.readFrom(w, &io.LimitedReader{R: part.R, N: most})
		part.N -= n
		if total += n; err != nil || n < most || part.N == 0 {
			return total, err
		}
	}
}

func (r *recorder) readFrom(w io.ReaderFrom, source io.Reader) (int64, error) {
	if !r.watch.Begin() {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := w.ReadFrom(source)
	r.watch.End()
	if n > 0 {
		r.begin()
	}
	r.bytes += n
	return n, err
}

// isRegular reports whether a source is a file that never keeps anybody waiting.
func isRegular(source io.Reader) bool {
	file, ok := source.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}

// watchedReader is what a response is copied from. Its time is not the client's fault.
type watchedReader struct {
	io.Reader
	watch *stall.Watch
}

func (r *watchedReader) Read(p []byte) (int, error) {
	r.watch.End()
	n, err := r.Reader.Read(p[:min(len(p), stall.Piece)])
	if !r.watch.Begin() && err == nil {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// FlushError is for [http.ResponseController].
func (r *recorder) FlushError() error {
	before := r.status
	r.begin()
	r.watch.Begin()
	err := http.NewResponseController(r.ResponseWriter).Flush()
	r.watch.End()
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
		r.meterHeader()
	}
}

func (r *recorder) meterHeader() {
	if r.meter != nil {
		r.meter.Begin(r.Header())
	}
}

// meterBody takes a piece of the body after it was sent, so that nothing waits for it. What could
// not be sent was used all the same.
func (r *recorder) meterBody(p []byte) {
	if r.meter != nil && !r.noBody {
		_, _ = r.meter.Write(p) // never fails
	}
}

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

// outcome is what became of the request in whose context it was served. A panic has the status that
// was sent before, else
// 500. A failure is the client's own if it has hung up, or did not send its body: who could make a
// request fail could have it refunded.
// A cost may also be set after the body, when it is known: it is not sent as a trailer either.
func (r *recorder) outcome(ctx context.Context) policy.Outcome {
	r.takeCost()
	if r.meter != nil {
		r.meter.Trailer(r.Header())
	}
	o := policy.Outcome{Status: r.status, Bytes: r.bytes, Cost: r.cost}
	switch {
	case o.Status != 0:
	case r.returned:
		o.Status = http.StatusOK
	default:
		o.Status = http.StatusInternalServerError
	}
	if r.unread || o.Status >= http.StatusInternalServerError && errors.Is(ctx.Err(), context.Canceled) {
		o.Status = words.StatusClientGone
	}
	if r.noBody {
		o.Bytes = 0
	}
	return o
}
