package outbound

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/tokens"
)

const settleTime = time.Second

// Send waits for a turn as [Client.Wait] does, and then sends an HTTP request through base. If it
// gets no turn, it sends nothing. If the API has a Usage, the call is charged an estimate of its
// tokens, which is based on the length and the first 64 KiB of the request's body. When the
// response body has been read or closed, the charge is corrected to the usage that the response
// reports. If the call fails, or if an error response reports no usage, no tokens are charged.
//
// The transport of package httplimit calls Send for an HTTP client. It also pauses and repeats
// calls when the API asks clients to slow down.
func (c *Client) Send(req *http.Request, base http.RoundTripper) (*http.Response, error) {
	e, err := c.registry.find(c.name)
	if err != nil {
		return nil, err
	}
	if e.usage == nil {
		if _, err := c.Wait(req.Context()); err != nil {
			return nil, err
		}
		return base.RoundTrip(req)
	}
	out, head, length := readHead(req, e.usage.Body())
	s := &sending{client: c, api: e, estimate: e.usage.Estimate(req.URL.Path, head, length)}
	if s.decision, err = c.WaitFor(req.Context(), e.costs(s.estimate, true)); err != nil {
		return nil, err
	}
	resp, err := base.RoundTrip(out)
	s.settles(req.Context(), resp)
	return resp, err
}

// readHead reads the beginning of a request's body, up to the given number of bytes. It returns a
// copy of the request that still has the whole body, because a transport must not change its
// caller's request. It also returns the bytes read and the declared length of the body.
func readHead(req *http.Request, most int64) (out *http.Request, head []byte, length int64) {
	if req.Body == nil || req.Body == http.NoBody || req.Header.Get("Content-Encoding") != "" {
		return req, nil, 0
	}
	head, err := io.ReadAll(io.LimitReader(req.Body, most))
	rest := io.Reader(req.Body)
	if err != nil {
		rest = failed{err}
	}
	out = req.WithContext(req.Context())
	out.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), rest), req.Body}
	return out, head, req.ContentLength
}

// failed replaces the rest of a body after a read error. Its Read returns that error again.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }

// sending holds the state of a call whose tokens are counted.
type sending struct {
	client   *Client
	api      *entry
	estimate tokens.Counts
	decision stint.Decision
}

// settles arranges for the call to be settled to its actual usage when the response ends. Until
// then, the usage so far is reported to the store. If resp is nil, the call has failed and is
// settled at once.
func (s *sending) settles(ctx context.Context, resp *http.Response) {
	m := s.api.usage.Meter()
	var reports *tokens.Reports
	end := sync.OnceFunc(func() {
		reports.Stop()
		failed := resp == nil || resp.StatusCode >= http.StatusBadRequest
		used := s.api.usage.Settled(m.End(), s.estimate, failed)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		defer cancel()
		_ = s.client.Settle(ctx, s.decision, s.api.costs(used, false)) // the limiter logs failures
	})
	if resp == nil || resp.Body == nil || resp.StatusCode == http.StatusSwitchingProtocols {
		end()
		return
	}
	m.Begin(resp.Header)
	if hold := s.decision.Charge.Data().Hold; hold > 0 {
		reports = tokens.StartReports(ctx, s.client.registry.store, hold, func() (stint.Charge, stint.Amendment) {
			return s.decision.Charge, stint.Amendment{Kind: stint.AmendExtend, Costs: s.api.costs(m.SoFar(), false)}
		})
	}
	resp.Body = &meteredBody{ReadCloser: resp.Body, response: resp, meter: m, end: end}
}

// meteredBody is a response body whose meter reads the token counts in it as the body is read.
type meteredBody struct {
	io.ReadCloser
	response *http.Response
	meter    *tokens.Meter
	end      func()
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	_, _ = b.meter.Write(p[:n]) // never fails
	if err != nil {
		b.meter.Trailer(b.response.Trailer)
		b.end()
	}
	return n, err
}

func (b *meteredBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
