package httplimit

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"sync"

	"github.com/stint-limiter/stint/internal/stall"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/policy"
)

// recorder is a ResponseWriter that records the outcome of a request: the status, the length of the
// body, and the true cost that the response reports. [http.ResponseController] can still reach the
// wrapped writer.
type recorder struct {
	http.ResponseWriter
	costHeader string       // name of the header with the true cost; "" if there is none
	noBody     bool         // whether the method is HEAD, so that no body is sent
	unread     bool         // whether the body of the request could not be read
	meter      policy.Meter // reads the usage from the response; nil if the usage is not needed

	watch    stall.Watch
	status   int
	bytes    int64
	cost     string
	returned bool // whether the handler returned without panicking
}

// serve calls the handler. Unless finish is nil, serve calls it once with the outcome, even if the
// handler panics. The panic then continues.
func (x *exchange) serve(w http.ResponseWriter, r *http.Request, next http.Handler, finish func(policy.Outcome)) {
	if x.shares {
		r = r.WithContext(context.WithValue(r.Context(), verdictKey{}, x.v))
	}
	if finish == nil {
		next.ServeHTTP(w, r)
		return
	}
	rec := &recorder{ResponseWriter: w, costHeader: x.v.SettleHeader, noBody: r.Method == http.MethodHead,
		unread: x.unread != nil}
	if rec.meter = x.v.Meter(); rec.meter != nil {
		r = x.askForUsage(r, rec.meter)
	}
	var once sync.Once
	rec.watch.Init(w, x.timeout, func() func() {
		o := rec.outcome(r.Context())
		return func() { once.Do(func() { finish(o) }) }
	})
	defer func() {
		rec.watch.Stop()
		once.Do(func() { finish(rec.outcome(r.Context())) })
	}()
	next.ServeHTTP(rec.wrapped(), r)
	rec.returned = true
	if rec.watch.Ended() {
		panic(http.ErrAbortHandler) // otherwise a truncated response could look complete
	}
}

type verdictKey struct{}

// FromContext returns the verdict on the request that a handler serves, if the middleware has the
// option [WithVerdict]. The verdict must not be changed. Under [By] it has only the Decision, a
// result for each key and the Cost. There is no configuration, so Set is nil and Tier is "".
func FromContext(ctx context.Context) (*policy.Verdict, bool) {
	v, ok := ctx.Value(verdictKey{}).(*policy.Verdict)
	return v, ok
}

// Unwrap returns the wrapped writer, for [http.ResponseController].
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (r *recorder) WriteHeader(status int) {
	r.takeCost()
	if r.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		r.status = status
		r.meterHeader()
	}
	r.watch.Begin() // WriteHeader may block: it sends informational responses at once
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

// send writes size bytes of the body in pieces, each with its own time limit.
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

// ReadFrom implements [io.ReaderFrom]. It passes a file to the wrapped writer, so that the kernel
// can copy it from disk to network. An empty or failing source does not start a response.
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

// isRegular reports whether a source is a regular file. Reading a regular file never blocks for
// long.
func isRegular(source io.Reader) bool {
	file, ok := source.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}

// watchedReader is the reader from which a response is copied. The watch pauses during each read,
// because the client does not cause that delay.
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

// FlushError flushes the response, for [http.ResponseController].
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

// begin records that the response begins, with status 200 unless the handler has already sent a
// status.
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

// meterBody passes a piece of the body to the meter. It is called after the piece has been sent, so
// that the client does not wait for the meter. It is also called if the piece could not be sent,
// because the usage that the piece reports occurred anyway.
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

// outcome returns the outcome of a request that was served with the context ctx. If the handler
// panicked, the status is the one that it sent before the panic, or 500. The status becomes 499 if
// the body of the request could not be read, or if the request failed and the client has
// disconnected: otherwise a client that can make a request fail could get a refund. If the handler
// has set the cost header after the body, outcome removes it, so that it is not sent as a trailer.
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
		o.Status = syntax.StatusClientGone
	}
	if r.noBody {
		o.Bytes = 0
	}
	return o
}
