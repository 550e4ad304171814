package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
)

// caller makes requests to our API, in its own habit.
type caller struct {
	habit        string
	method, path string
	header       http.Header // what a proxy in front of the API would say of it
	burst        int
	pause        time.Duration
}

// newCallers returns one caller of each kind. The address is one of those that
// are set aside for examples.
func newCallers() []*caller {
	return []*caller{
		{
			habit: "one every 2 s", burst: 1, pause: 2 * time.Second,
			method: http.MethodGet, path: "/structures/4hhb", header: http.Header{"X-Forwarded-For": {"203.0.113.7"}},
		},
		{
			habit: "10 at once, every 2 s", burst: 10, pause: 2 * time.Second,
			method: http.MethodGet, path: "/structures/4hhb", header: http.Header{"X-User-Id": {"bob"}},
		},
		{
			habit: "one every 4 s", burst: 1, pause: 4 * time.Second,
			method: http.MethodPost, path: "/simulations", header: http.Header{"X-User-Id": {"carol"}, "X-User-Plan": {"pro"}},
		},
		{
			habit: "50 a second", burst: 1, pause: 20 * time.Millisecond,
			method: http.MethodGet, path: "/structures/4hhb", header: http.Header{"X-User-Id": {"mallory"}},
		},
		{
			habit: "10 a second", burst: 1, pause: 100 * time.Millisecond,
			method: http.MethodGet, path: "/structures/4hhb", header: http.Header{"X-Service": {"indexer"}},
		},
	}
}

func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
}

// run makes requests until the context ends. A denial ends the burst.
func (c *caller) run(ctx context.Context, client *http.Client, url string) error {
	tick := time.NewTicker(c.pause)
	defer tick.Stop()
	for {
		for range c.burst {
			status, err := c.call(ctx, client, url)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			if status == http.StatusTooManyRequests {
				break
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// call makes one request and returns the status of the answer.
func (c *caller) call(ctx context.Context, client *http.Client, url string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, c.method, url+c.path, nil)
	if err != nil {
		return 0, err
	}
	r.Header = c.header.Clone()
	return finish(client.Do(r))
}

// finish reads an answer to its end, so that the connection can be used again.
func finish(answer *http.Response, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return 0, fmt.Errorf("answer: %w", err)
	}
	return answer.StatusCode, nil
}

// input is what the guard gets to see of the caller's requests.
func (c *caller) input(peer netip.Addr) *policy.Input {
	return &policy.Input{Method: c.method, Path: c.path, Peer: peer, Header: c.header}
}

// workers is how many call somebody else's API, as fast as they may.
const workers = 6

// callAPI is such a worker. One that may not call, because the configuration has
// changed for instance, tries again after a while.
func callAPI(ctx context.Context, api *outbound.Client, url string) {
	base := newClient()
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: httplimit.NewTransport(api, base.Transport)}
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/games", nil)
		if err == nil {
			_, err = finish(client.Do(r))
		}
		if err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}
