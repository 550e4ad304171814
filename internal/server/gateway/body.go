package gateway

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// body is the body of a request. It records the first read error, so that the gateway can tell why
// it could not forward the request.
type body struct {
	io.ReadCloser
	trailers func() // called at the end of the body, when the trailers have arrived
	ended    atomic.Bool
	failure  atomic.Pointer[error]

	mu       sync.Mutex
	conn     *http.ResponseController // nil once leave has been called
	timeout  time.Duration            // 0 means no timeout
	rate     int64                    // bytes per second
	left     time.Duration            // how much longer to wait for the client
	messages *messages                // gRPC messages; nil for other bodies
}

// drainTime is the time limit for reading the rest of a body that is not needed. Without this
// reading, a client that is still sending might not receive the answer.
const drainTime = time.Second

func (b *body) Read(p []byte) (int, error) {
	began := b.await()
	n, err := b.ReadCloser.Read(p)
	b.note(p[:n], time.Since(began))
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.trailers()
		b.ended.Store(true)
	default:
		b.failure.CompareAndSwap(nil, &err)
	}
	return n, err
}

// await sets the deadline of a Read. Between gRPC messages, it sets none, because a client that has
// nothing to send is not slow.
func (b *body) await() (now time.Time) {
	now = time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timeout > 0 && !b.messages.between() {
		b.setDeadline(now.Add(b.left))
	}
	return now
}

// note is called after a Read. It removes the deadline, because a client need not send while the
// upstream is busy. It subtracts the time spent waiting from b.left, and adds the time that the
// data would take at the minimum rate. b.left never exceeds the timeout. So a client cannot be
// silent for longer than the timeout, and in the long run cannot be slower than the rate, even if
// it was fast at first.
func (b *body) note(data []byte, waited time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timeout == 0 {
		return
	}
	b.setDeadline(time.Time{})
	if b.messages.between() {
		waited = 0
	}
	b.messages.note(data)
	earned := time.Duration(min(float64(len(data))/float64(b.rate)*float64(time.Second), float64(b.timeout)))
	b.left = min(b.left-waited+earned, b.timeout)
}

// release removes the timeout when the response begins. After that, the upstream determines how
// long the request may take.
func (b *body) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timeout > 0 {
		b.setDeadline(time.Time{})
		b.timeout = 0
	}
}

// leave returns control of the connection to the server before the handler returns. After that,
// Read sets no deadlines, and the rest of the body must arrive within drainTime.
func (b *body) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended.Load() {
		b.setDeadline(time.Now().Add(drainTime))
	}
	b.conn, b.timeout = nil, 0
}

// setDeadline sets the deadline for reading the body. It does nothing after leave has been called,
// or if the writer does not support deadlines.
func (b *body) setDeadline(at time.Time) {
	if b.conn != nil {
		_ = b.conn.SetReadDeadline(at)
	}
}

// drainBody discards the unread rest of an HTTP/1 body. It reads for at most drainTime; the server
// itself would wait for the rest forever.
func (x *requestState) drainBody() {
	unread := !x.body.ended.Load()
	x.body.leave()
	if unread && x.returned && x.request.ProtoMajor == 1 {
		_ = x.FlushError() // send the answer now, before the rest is read
		_ = x.body.Close() // errors in the rest do not matter
	}
}

// watchBody wraps the body of r in a [body] before r is forwarded. It allows an HTTP/1 body to be
// read while the response is written.
func (x *requestState) watchBody(r *http.Request) {
	if r.ContentLength == 0 || r.Body == nil {
		return
	}
	conn := http.NewResponseController(x.ResponseWriter)
	if r.ProtoMajor == 1 {
		// Ignore the error: full duplex is optional, and some writers do not support it.
		_ = conn.EnableFullDuplex()
	}
	if x.settings.MaxBody > 0 {
		r.Body = http.MaxBytesReader(x.ResponseWriter, r.Body, x.settings.MaxBody)
	}
	announced := maps.Clone(r.Trailer)
	x.body = &body{
		ReadCloser: r.Body, trailers: func() { x.checkTrailers(r.Trailer, announced) },
		conn: conn, timeout: x.settings.BodyTimeout, rate: x.settings.MinBodyRate, left: x.settings.BodyTimeout,
	}
	if x.route.http2 && r.ProtoMajor == 2 && isGRPC(r.Header.Get("Content-Type")) {
		x.body.messages = &messages{}
	}
	r.Body = x.body
}

// checkTrailers removes unannounced trailers, because they could contain a Content-Length; net/http
// keeps such fields out of announced trailers only. It also removes aliases (see dropAliases) and,
// unless the peer is a trusted proxy, reserved trailers.
func (x *requestState) checkTrailers(trailers, announced http.Header) {
	for name := range trailers {
		if _, ok := announced[name]; !ok {
			delete(trailers, name)
		}
	}
	if !x.trusted() {
		x.settings.reserved.strip(trailers)
	}
	dropAliases(trailers)
}
