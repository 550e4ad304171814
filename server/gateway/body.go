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
	patience time.Duration            // with each Read; 0 is any
}

// linger is how long the rest of a body is awaited that nobody wants, so that a client that is still sending gets to see the answer.
const linger = time.Second

func (b *body) Read(p []byte) (int, error) {
	b.await()
	n, err := b.ReadCloser.Read(p)
	b.rest()
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

// await sets the deadline of a Read.
func (b *body) await() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.patience > 0 {
		b.setDeadline(time.Now().Add(b.patience))
	}
}

// rest takes the deadline away: while the upstream is busy the client has nothing to do.
func (b *body) rest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.patience > 0 {
		b.setDeadline(time.Time{})
	}
}

// release is called when the response begins. From then on the upstream says how long the exchange goes on.
func (b *body) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.patience > 0 {
		b.setDeadline(time.Time{})
		b.patience = 0
	}
}

// leave is called before the handler returns, after which the connection is not its own: a Read may go on for longer.
func (b *body) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended.Load() {
		b.setDeadline(time.Now().Add(linger))
	}
	b.conn, b.patience = nil, 0
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
		conn: conn, patience: x.plan.bodyTimeout,
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
