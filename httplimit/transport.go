package httplimit

import (
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/stint-limiter/stint/outbound"
)

// An answer that is thrown away is read to its end so that its connection can be used again, if
// that is no more than maxDrain and takes no longer than drainTime.
const (
	maxDrain  = 64 << 10
	drainTime = 100 * time.Millisecond
)

// NewTransport returns a transport that makes calls to somebody else's API, by way of base or, if
// that is nil, of [http.DefaultTransport]:
//
//	client := &http.Client{Transport: httplimit.NewTransport(igdb, nil)}
//
// Every request waits for its turn, as [outbound.Client.Wait] does, and fails with the error of
// that if it gets none; nothing is sent then. When an answer says to slow down, all processes that
// share the store pause: in the Retry-After of a 429 or a 503, in the RateLimit or X-RateLimit
// fields of any answer that leaves nothing, those of OpenAI and Anthropic for tokens included, or
// by a bare 429, for a second. The caller gets the answer as it is.
//
// If the API's Retries is not zero, a 429, or a 503 with a Retry-After, is not handed to the caller
// until the request was repeated that often, after each pause. That is for requests that do no harm
// when they arrive twice: GET, HEAD, OPTIONS, TRACE, PUT, DELETE and those with an Idempotency-Key,
// as long as their body can be had again. A repeat that gets no turn, because the pause is longer
// than MaxWait or the context allow for instance, is not made: the caller has the API's last
// answer, without an error.
//
// If the API has a Usage, limits on tokens are charged what a request is likely to use, and settled
// to what its response says: see [outbound.Client.Send].
//
// The hops of a redirect are requests like any other, whichever host they lead to.
//
// An API that is nil is a mistake in the program: NewTransport panics.
func NewTransport(api *outbound.Client, base http.RoundTripper) http.RoundTripper {
	if api == nil {
		panic("httplimit: NewTransport: the API is nil; want one of an outbound.Registry")
	}
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{api: api, base: base}
}

type transport struct {
	api  *outbound.Client
	base http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var refusal *http.Response // to which this is a repeat
	for repeats := 0; ; repeats++ {
		sent := false
		resp, err := t.api.Send(req, sender(func(out *http.Request) (*http.Response, error) {
			sent = true
			if refusal != nil {
				discard(refusal)
			}
			return t.base.RoundTrip(out)
		}))
		if !sent {
			if req.Body != nil {
				_ = req.Body.Close() // a transport closes it whatever happens
			}
			if refusal != nil {
				return refusal, nil
			}
			return nil, err
		}
		if err != nil || resp == nil {
			return resp, err
		}
		pause := readPause(resp, time.Now())
		if pause.wait > 0 {
			t.api.CoolDown(pause.wait)
		}
		if !pause.again || repeats >= t.api.Retries() {
			return resp, nil
		}
		next, ok := repeat(req)
		if !ok {
			return resp, nil
		}
		refusal, req = resp, next
	}
}

// sender is a function that sends a request.
type sender func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (s sender) RoundTrip(req *http.Request) (*http.Response, error) { return s(req) }

// discard is the end of an answer that nobody is to see.
func discard(resp *http.Response) {
	if resp.Body == nil {
		return
	}
	if 0 <= resp.ContentLength && resp.ContentLength <= maxDrain {
		late := time.AfterFunc(drainTime, func() { _ = resp.Body.Close() })
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
		late.Stop()
	}
	_ = resp.Body.Close()
}

// CloseIdleConnections passes on [http.Client.CloseIdleConnections].
func (t *transport) CloseIdleConnections() {
	if closer, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// repeat returns the request as it was before it was sent, and whether it may be sent again.
func repeat(req *http.Request) (*http.Request, bool) {
	if !idempotent(req) {
		return nil, false
	}
	if req.Body == nil || req.Body == http.NoBody {
		return req, true
	}
	if req.GetBody == nil {
		return nil, false
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	next := req.WithContext(req.Context())
	next.Body = body
	return next, true
}

// idempotent reports whether a request does no more harm twice than once: by its method, or because
// its sender says so, in the fields that [http.Transport] knows too.
func idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return slices.ContainsFunc([]string{"Idempotency-Key", "X-Idempotency-Key"}, func(name string) bool {
		return len(req.Header.Values(name)) > 0
	})
}
