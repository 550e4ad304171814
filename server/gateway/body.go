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

// body is the body of a request. It tells whose fault it was if the request cannot be sent on.
type body struct {
	io.ReadCloser
	trailers func() // is called at the end, when they have come
	ended    atomic.Bool
	failure  atomic.Pointer[error]

	mu       sync.Mutex
	conn     *http.ResponseController // nil when the handler has returned
	timeout  time.Duration            // 0 is any
	rate     int64                    // bytes a second
	left     time.Duration            // how long the client may still be waited for
	messages *messages                // of gRPC; nil for other bodies
}

// linger is how long the rest of a body is awaited that nobody wants, so that a client that is still sending gets to see the answer.
const linger = time.Second

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

// await sets the deadline of a Read. Between two messages there is none: who has nothing to say is not slow.
func (b *body) await() (now time.Time) {
	now = time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timeout > 0 && !b.messages.between() {
		b.setDeadline(now.Add(b.left))
	}
	return now
}

// note takes the deadline away: while the upstream is busy the client has nothing to do. The time that the client was waited
// for is gone, and what it has sent earns some again: as much as it may take at the least rate. So a client is neither silent
// for longer than the timeout nor, in the long run, slower than the rate, and nothing sent in haste pays for hours of silence.
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

// release is called when the response begins. From then on the upstream says how long the exchange goes on.
func (b *body) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timeout > 0 {
		b.setDeadline(time.Time{})
		b.timeout = 0
	}
}

// leave is called before the handler returns, after which the connection is not its own: a Read may go on for longer.
func (b *body) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended.Load() {
		b.setDeadline(time.Now().Add(linger))
	}
	b.conn, b.timeout = nil, 0
}

// setDeadline does without where a writer has no deadlines.
func (b *body) setDeadline(at time.Time) {
	if b.conn != nil {
		_ = b.conn.SetReadDeadline(at)
	}
}

// leaveBody ends with a body, of which there may be more. In HTTP/1 the server would wait for it without end.
func (x *exchange) leaveBody() {
	unread := !x.body.ended.Load()
	x.body.leave()
	if unread && x.returned && x.request.ProtoMajor == 1 {
		_ = x.FlushError() // the client need not wait for the answer
		_ = x.body.Close() // what is wrong with the rest is of no interest
	}
}

// watchBody replaces the body of a request that is about to be passed on. HTTP/1 bodies may still be read while the
// response is written.
func (x *exchange) watchBody(r *http.Request) {
	if r.ContentLength == 0 || r.Body == nil {
		return
	}
	conn := http.NewResponseController(x.ResponseWriter)
	if r.ProtoMajor == 1 {
		// Not every writer can, and those that cannot do without.
		_ = conn.EnableFullDuplex()
	}
	if x.plan.maxBody > 0 {
		r.Body = http.MaxBytesReader(x.ResponseWriter, r.Body, x.plan.maxBody)
	}
	announced := maps.Clone(r.Trailer)
	x.body = &body{
		ReadCloser: r.Body, trailers: func() { x.checkTrailers(r.Trailer, announced) },
		conn: conn, timeout: x.plan.bodyTimeout, rate: x.plan.minBodyRate, left: x.plan.bodyTimeout,
	}
	if x.route.http2 && r.ProtoMajor == 2 && isGRPC(r.Header.Get("Content-Type")) {
		x.body.messages = &messages{}
	}
	r.Body = x.body
}

// checkTrailers removes trailers that were not announced, which is how net/http keeps out those that say how long a message
// is, and those that are reserved.
func (x *exchange) checkTrailers(trailers, announced http.Header) {
	for name := range trailers {
		if _, ok := announced[name]; !ok {
			delete(trailers, name)
		}
	}
	if !x.trusted() {
		x.plan.reserved.strip(trailers)
	}
}
