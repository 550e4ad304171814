package httplimit

import (
	"bufio"
	"net"
	"net/http"
)

// wrapped returns the recorder with exactly those interfaces that the writer has and that handlers
// ask for by their type, beside those that [http.ResponseController] finds: one that cannot flush
// must not look as if it could. CloseNotify and Push need no such care, so every recorder has them.
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

// CloseNotify implements http.CloseNotifier, which is deprecated and still demanded by gin. It
// never notifies of anything if the writer cannot.
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

// hijacker is the ability to take over the connection. The status is then 101 unless another one
// was written, and what is sent from then on is not counted.
type hijacker struct{ r *recorder }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := h.r.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil && h.r.status == 0 {
		h.r.status = http.StatusSwitchingProtocols
	}
	return conn, buffer, err
}
