package httplimit

import (
	"bufio"
	"net"
	"net/http"
)

// Interfaces of a ResponseWriter that handlers ask for by their type, beside those that
// [http.ResponseController] finds.
const (
	flushes = 1 << iota
	hijacks
	notifies
	pushes
)

// closeNotifier is http.CloseNotifier, which is deprecated and still demanded by gin.
type closeNotifier interface{ CloseNotify() <-chan bool }

// wrapped returns the recorder with exactly those interfaces that the writer has: one that cannot
// flush must not look as if it could.
func (r *recorder) wrapped() http.ResponseWriter {
	type (
		F = http.Flusher
		H = http.Hijacker
		N = closeNotifier
		P = http.Pusher
	)
	var able int
	f, h := flusher{r}, hijacker{r}
	if _, ok := r.ResponseWriter.(F); ok {
		able |= flushes
	}
	if _, ok := r.ResponseWriter.(H); ok {
		able |= hijacks
	}
	n, ok := r.ResponseWriter.(N)
	if ok {
		able |= notifies
	}
	p, ok := r.ResponseWriter.(P)
	if ok {
		able |= pushes
	}
	switch able {
	case flushes:
		return struct {
			*recorder
			F
		}{r, f}
	case hijacks:
		return struct {
			*recorder
			H
		}{r, h}
	case flushes | hijacks:
		return struct {
			*recorder
			F
			H
		}{r, f, h}
	case notifies:
		return struct {
			*recorder
			N
		}{r, n}
	case flushes | notifies:
		return struct {
			*recorder
			F
			N
		}{r, f, n}
	case hijacks | notifies:
		return struct {
			*recorder
			H
			N
		}{r, h, n}
	case flushes | hijacks | notifies: // HTTP/1
		return struct {
			*recorder
			F
			H
			N
		}{r, f, h, n}
	case pushes:
		return struct {
			*recorder
			P
		}{r, p}
	case flushes | pushes:
		return struct {
			*recorder
			F
			P
		}{r, f, p}
	case hijacks | pushes:
		return struct {
			*recorder
			H
			P
		}{r, h, p}
	case flushes | hijacks | pushes:
		return struct {
			*recorder
			F
			H
			P
		}{r, f, h, p}
	case notifies | pushes:
		return struct {
			*recorder
			N
			P
		}{r, n, p}
	case flushes | notifies | pushes: // HTTP/2
		return struct {
			*recorder
			F
			N
			P
		}{r, f, n, p}
	case hijacks | notifies | pushes:
		return struct {
			*recorder
			H
			N
			P
		}{r, h, n, p}
	case flushes | hijacks | notifies | pushes:
		return struct {
			*recorder
			F
			H
			N
			P
		}{r, f, h, n, p}
	}
	return r
}

type flusher struct{ *recorder }

func (f flusher) Flush() {
	f.begin()
	f.watch.Begin()
	defer f.watch.End()
	f.ResponseWriter.(http.Flusher).Flush()
}

// hijacker is the ability to take over the connection. The status is then 101 unless another one
// was written, and what is sent from then on is not counted.
type hijacker struct{ *recorder }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := h.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil && h.status == 0 {
		h.status = http.StatusSwitchingProtocols
	}
	return conn, buffer, err
}
