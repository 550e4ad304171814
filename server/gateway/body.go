package gateway

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"sync/atomic"
)

// body is the body of a request. It tells whose fault it was if the request cannot be sent on.
type body struct {
	io.ReadCloser
	trailers func() // is called at the end, when they have come
	ended    atomic.Bool
	failure  atomic.Pointer[error]
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
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

// watchBody replaces the body of a request that is about to be passed on. HTTP/1 bodies may still be read while the
// response is written.
func (x *exchange) watchBody(r *http.Request) {
	if r.ContentLength == 0 || r.Body == nil {
		return
	}
	if r.ProtoMajor == 1 {
		// Not every writer can, and those that cannot do without.
		_ = http.NewResponseController(x.ResponseWriter).EnableFullDuplex()
	}
	if x.gateway.maxBody > 0 {
		r.Body = http.MaxBytesReader(x.ResponseWriter, r.Body, x.gateway.maxBody)
	}
	announced := maps.Clone(r.Trailer)
	x.body = &body{ReadCloser: r.Body, trailers: func() { x.checkTrailers(r.Trailer, announced) }}
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
		x.gateway.reservedBy(x.verdict.Set()).strip(trailers)
	}
}
