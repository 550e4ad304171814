package httplimit

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/tokens"
	"github.com/stint-limiter/stint/outbound"
)

// call is a request that a transport sends, and what it is charged.
type call struct {
	api      *outbound.Client
	request  *http.Request
	rules    *tokens.Rules // nil: calls are counted
	estimate tokens.Counts
	decision stint.Decision
}

// begin waits for the turn of a request.
func (t *transport) begin(req *http.Request) (*call, error) {
	c := &call{api: t.api, request: req, rules: t.api.Usage()}
	if c.rules == nil {
		_, err := t.api.Wait(req.Context())
		return c, err
	}
	head, length := c.read()
	c.estimate = c.rules.Estimate(req.URL.Path, head, length)
	var err error
	c.decision, err = t.api.WaitFor(req.Context(), t.api.Costs(c.estimate, true))
	return c, err
}

// read reads the beginning of the body, and puts it back: in a copy, because a transport does not
// change the request of its caller.
func (c *call) read() (head []byte, length int64) {
	req := c.request
	if req.Body == nil || req.Body == http.NoBody || req.Header.Get("Content-Encoding") != "" {
		return nil, 0
	}
	head, err := io.ReadAll(io.LimitReader(req.Body, c.rules.Body()))
	rest := io.Reader(req.Body)
	if err != nil {
		rest = failed{err}
	}
	c.request = req.WithContext(req.Context())
	c.request.Body = &putBack{io.MultiReader(bytes.NewReader(head), rest), req.Body}
	return head, req.ContentLength
}

// settleTime is how long it is worth waiting for the store to take a true cost.
const settleTime = time.Second

// settles sees to it that the call is charged what it used, as its response says; nil is that of a
// call that failed.
func (c *call) settles(resp *http.Response) {
	if c.rules == nil {
		return
	}
	m := c.rules.Meter()
	end := sync.OnceFunc(func() {
		failed := resp == nil || resp.StatusCode >= http.StatusBadRequest
		used := c.rules.Settled(m.End(), c.estimate, failed)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.request.Context()), settleTime)
		defer cancel()
		_ = c.api.Settle(ctx, c.decision, c.api.Costs(used, false)) // the limiter logs what fails
	})
	if resp == nil || resp.Body == nil || resp.StatusCode == http.StatusSwitchingProtocols {
		end()
		return
	}
	m.Begin(resp.Header)
	resp.Body = &meteredBody{ReadCloser: resp.Body, meter: m, end: end}
}

// meteredBody is the body of a response that is read for what it says about its usage.
type meteredBody struct {
	io.ReadCloser
	meter *tokens.Meter
	end   func()
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	_, _ = b.meter.Write(p[:n]) // never fails
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *meteredBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
