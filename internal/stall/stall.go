// Package stall ends responses whose client does not read them. A response that has nothing to send
// may last forever.
package stall

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Piece is the maximum number of bytes written under one timeout. Larger writes are split, so that
// a long write does not look stuck.
const Piece = 64 << 10

// Watch limits the time that one write of a response may block. Set it up with [Watch.Init], and
// use it from one goroutine.
type Watch struct {
	rw      http.ResponseWriter
	timeout time.Duration
	stuck   func() (then func())

	mu    sync.Mutex
	timer *time.Timer
	armed bool
	since time.Time // start of the current write; zero if there is none
	ended bool
}

// Init sets up the watch: a write to rw that blocks longer than timeout fails. 0 means no timeout.
//
// Not every writer supports deadlines, and ending a stream has no effect on an HTTP/2 connection
// that is blocked as a whole. So if the write is still blocked after another timeout, the watch
// calls stuck and then the function that stuck returns. Either function may be nil. The write is
// certain to be blocked while stuck runs.
func (w *Watch) Init(rw http.ResponseWriter, timeout time.Duration, stuck func() (then func())) {
	w.rw, w.timeout, w.stuck = rw, timeout, stuck
}

// Begin must be called before a write or a flush, and [Watch.End] after it. Begin returns false if
// an earlier write has blocked for too long. The response must then not be continued.
func (w *Watch) Begin() bool {
	if w.timeout <= 0 {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return false
	}
	w.since = time.Now()
	switch {
	case w.armed: // the timer checks again when it fires
	case w.timer == nil:
		w.timer = time.AfterFunc(w.timeout, w.look)
	default:
		w.timer.Reset(w.timeout)
	}
	w.armed = true
	return true
}

// End must be called after a write or a flush.
func (w *Watch) End() {
	if w.timeout <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Time{}
}

// Stop must be called when the response has ended.
func (w *Watch) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Time{}
	if w.timer != nil {
		w.timer.Stop()
	}
}

// Ended reports whether a write has blocked for too long.
func (w *Watch) Ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// look runs when the timer fires, because a write may have blocked for too long.
func (w *Watch) look() {
	if then := w.decide(); then != nil {
		then()
	}
}

// decide ends the current write if it has blocked for too long. If the write is still blocked after
// another timeout, decide calls stuck and returns its result. While stuck runs, the goroutine that
// writes cannot continue, even if its write has just finished: End waits for the lock.
func (w *Watch) decide() (then func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed = !w.since.IsZero(); !w.armed {
		return nil
	}
	blocked := time.Since(w.since)
	switch {
	case blocked < w.timeout:
		w.timer.Reset(w.timeout - blocked)
	case !w.ended:
		w.ended = true
		// A deadline in the past ends a blocked write, and with it the connection or, in HTTP/2,
		// the stream.
		_ = http.NewResponseController(w.rw).SetWriteDeadline(time.Unix(1, 0))
		w.timer.Reset(w.timeout)
	case w.stuck != nil:
		return w.stuck()
	}
	return nil
}

// Conn returns c with a timeout for writes: a write fails if one of its pieces, of at most [Piece]
// bytes, blocks longer than timeout. Reads have no timeout.
func Conn(c net.Conn, timeout time.Duration) net.Conn { return &conn{c, timeout} }

type conn struct {
	net.Conn
	timeout time.Duration
}

func (c *conn) Write(p []byte) (n int, err error) {
	for {
		piece := p[n:min(n+Piece, len(p))]
		if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
			return n, err
		}
		written, err := c.Conn.Write(piece)
		n += written
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// CloseWrite closes the writing side, or the whole connection if the two sides cannot be closed
// separately. [net/http/httputil.ReverseProxy] calls it when the other side has nothing more to
// send.
func (c *conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return c.Close()
	}
	return half.CloseWrite()
}
