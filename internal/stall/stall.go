// Package stall ends responses that the client does not take. A response without anything to send may last for any time.
package stall

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Piece is how much is written under one timeout. Larger writes are split, so that a long one is not taken for one that is
// stuck.
const Piece = 64 << 10

// Watch bounds how long one write of a response may block. It is made with [Watch.Init], and used by one goroutine.
type Watch struct {
	rw      http.ResponseWriter
	timeout time.Duration
	stuck   func() (then func())

	mu    sync.Mutex
	timer *time.Timer
	armed bool
	since time.Time // when the write under way began; zero if there is none
	ended bool
}

// Init sets up the watch: a write to rw that blocks for longer than timeout fails. 0 is any time.
//
// Not every writer has deadlines, and the end of a stream does not get through a connection of HTTP/2 that is stuck as a whole.
// So stuck, which may be nil, is called if the write still blocks after another timeout, while it certainly does, and then what
// it returns.
func (w *Watch) Init(rw http.ResponseWriter, timeout time.Duration, stuck func() (then func())) {
	w.rw, w.timeout, w.stuck = rw, timeout, stuck
}

// Begin is called before a write or a flush, and [Watch.End] after it. It reports false if an earlier one has blocked for too
// long: nothing more is to be sent then.
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
	case w.armed: // the timer looks again when it fires
	case w.timer == nil:
		w.timer = time.AfterFunc(w.timeout, w.look)
	default:
		w.timer.Reset(w.timeout)
	}
	w.armed = true
	return true
}

// End is called after a write or a flush.
func (w *Watch) End() {
	if w.timeout <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Time{}
}

// Stop is called when the response has ended.
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

// look is called when a write may have blocked for too long.
func (w *Watch) look() {
	if then := w.decide(); then != nil {
		then()
	}
}

// decide ends the write under way if it has blocked for too long. One that has just ended is safe: End waits for the lock.
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
		// A deadline in the past ends a write that is under way: in HTTP/1 with its connection, in HTTP/2 with its stream.
		_ = http.NewResponseController(w.rw).SetWriteDeadline(time.Unix(1, 0))
		w.timer.Reset(w.timeout)
	case w.stuck != nil:
		return w.stuck()
	}
	return nil
}

// Conn returns a connection on which a write that blocks for longer than timeout fails. Reads may take any time.
func Conn(c net.Conn, timeout time.Duration) net.Conn { return &conn{c, timeout} }

type conn struct {
	net.Conn
	timeout time.Duration
}

// Write implements [net.Conn].
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

// CloseWrite is what proxies call when the other side has nothing more to say.
func (c *conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return c.Close()
	}
	return half.CloseWrite()
}
