package httplimit

import (
	"bufio"
	"net"
	"net/http"
)

// wrapped returns the recorder as a writer that has Flush only if the original writer has it, and
// likewise Hijack. Handlers find these methods by type assertion, so a writer that cannot flush
// must not have Flush. Methods that only [http.ResponseController] calls need no wrapping, because
// it finds them with Unwrap. CloseNotify and Push are safe on any writer, so every recorder has
// them.
func (r *recorder) wrapped() http.ResponseWriter {
	_, flushes := r.ResponseWriter.(http.Flusher)
	_, hijacks := r.ResponseWriter.(http.Hijacker)
	switch {
	case flushes && hijacks:
		return struct {
			*recorder
			flusher
			hijacker
		}{r, flusher{r}, hijacker{r}}
	case flushes:
		return struct {
			*recorder
			flusher
		}{r, flusher{r}}
	case hijacks:
		return struct {
			*recorder
			hijacker
		}{r, hijacker{r}}
	}
	return r
}

// CloseNotify implements http.CloseNotifier, which is deprecated but still required by gin. It
// returns a nil channel if the wrapped writer does not implement that interface.
func (r *recorder) CloseNotify() <-chan bool {
	if n, ok := r.ResponseWriter.(interface{ CloseNotify() <-chan bool }); ok {
		return n.CloseNotify()
	}
	return nil
}

// Push implements [http.Pusher].
func (r *recorder) Push(target string, options *http.PushOptions) error {
	if p, ok := r.ResponseWriter.(http.Pusher); ok {
		return p.Push(target, options)
	}
	return http.ErrNotSupported
}

type flusher struct{ r *recorder }

func (f flusher) Flush() {
	f.r.begin()
	f.r.watch.Begin()
	defer f.r.watch.End()
	f.r.ResponseWriter.(http.Flusher).Flush()
}

// hijacker lets a handler take over the connection. The recorded status is then 101, unless the
// handler has already written another status. Data that the handler sends over the connection is
// not counted.
type hijacker struct{ r *recorder }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := h.r.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil && h.r.status == 0 {
		h.r.status = http.StatusSwitchingProtocols
	}
	return conn, buffer, err
}
