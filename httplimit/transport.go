package httplimit

import (
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/stint-limiter/stint/outbound"
)

// A discarded response is read to its end so that its connection can be reused. It is closed early
// if its length is unknown or above maxDrain, or if reading takes longer than drainTime.
const (
	maxDrain  = 64 << 10
	drainTime = 100 * time.Millisecond
)

// NewTransport returns a transport for calls to a third-party API. It sends requests with base or,
// if base is nil, with [http.DefaultTransport]:
//
//	client := &http.Client{Transport: httplimit.NewTransport(igdb, nil)}
//
// Every request waits for its turn, as in [outbound.Client.Wait]. A request that gets no turn is
// not sent, and fails with the error of Wait. When a response asks clients to slow down, all
// processes that share the store pause. These responses ask for a pause:
//   - a 429 or 503 with Retry-After
//   - any response whose RateLimit or X-RateLimit fields report that nothing is left and when the
//     quota resets, including the fields that OpenAI and Anthropic use for requests and tokens
//   - any other 429, after which the processes pause for a second
//
// The caller gets the response unchanged.
//
// If the API's Retries is not zero, a request that gets a 429, or a 503 with a Retry-After, is
// repeated after the pause, up to Retries times, before the caller gets the response. This applies
// to requests that can safely be sent twice: GET, HEAD, OPTIONS, TRACE, PUT, DELETE and those with
// an Idempotency-Key, provided their body can be obtained again. A repeat that gets no turn, for
// example because the pause is longer than MaxWait or than the context allows, is not sent: the
// caller gets the API's last response, without an error.
//
// If the API has a Usage, each request is charged its estimated usage under limits on tokens. The
// charge is settled to the usage that the response reports: see [outbound.Client.Send].
//
// Each hop of a redirect counts as a request to the API, even if it leads to another host.
//
// NewTransport panics if api is nil.
func NewTransport(api *outbound.Client, base http.RoundTripper) http.RoundTripper {
	if api == nil {
		panic("httplimit: NewTransport: the API is nil; want one from an outbound.Registry")
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
	var refusal *http.Response // the response to the previous attempt; nil in the first attempt
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
				_ = req.Body.Close() // a RoundTripper always closes the body
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
			t.api.Cooldown(pause.wait)
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

// sender is a function that sends a request. It implements [http.RoundTripper].
type sender func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (s sender) RoundTrip(req *http.Request) (*http.Response, error) { return s(req) }

// discard reads and closes the body of a response that is not returned to the caller.
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

// CloseIdleConnections supports [http.Client.CloseIdleConnections].
func (t *transport) CloseIdleConnections() {
	if closer, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// repeat returns the request to send when req is repeated, with a new copy of the body. It reports
// false if req must not or cannot be sent again.
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

// idempotent reports whether a request can safely be sent twice, because of its method or because
// it has an idempotency key. Like [http.Transport], it accepts two header fields for the key.
func idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return slices.ContainsFunc([]string{"Idempotency-Key", "X-Idempotency-Key"}, func(name string) bool {
		return len(req.Header.Values(name)) > 0
	})
}
