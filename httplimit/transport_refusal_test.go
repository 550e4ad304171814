package httplimit_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/outbound"
)

// Who gets no turn for a repeat has the API's own answer, all of it, and the body of the repeat is
// closed.
func TestTransportRefusalIsNotLost(t *testing.T) {
	for _, test := range []struct {
		name    string
		maxWait time.Duration
		timeout time.Duration
		cancel  time.Duration
	}{
		{"the pause is longer than a call may wait", 10 * time.Second, 0, 0},
		{"the pause is longer than the context lasts", 0, 10 * time.Second, 0},
		{"the caller gives up", 0, 0, 10 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests := 0
				answer := &watched{Reader: strings.NewReader("your plan is used up")}
				base := roundTrip(func(req *http.Request) (*http.Response, error) {
					requests++
					_ = req.Body.Close()
					return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"60"}}, Body: answer,
						ContentLength: 20, Request: req}, nil
				})
				api := igdb()
				api.Retries, api.MaxWait = 3, test.maxWait
				c, _ := newProcess(t, memory(t), api, base)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.timeout > 0 {
					ctx, cancel = context.WithTimeout(ctx, test.timeout)
					defer cancel()
				}
				if test.cancel > 0 {
					time.AfterFunc(test.cancel, cancel)
				}
				var bodies []*watched
				body := func() (io.ReadCloser, error) {
					b := &watched{Reader: strings.NewReader("body")}
					bodies = append(bodies, b)
					return b, nil
				}
				first, _ := body()
				req, err := http.NewRequestWithContext(ctx, "PUT", "http://igdb.test/games", first)
				if err != nil {
					t.Fatal(err)
				}
				req.GetBody = body
				resp, err := c.Transport.RoundTrip(req)
				if err != nil || resp == nil || resp.StatusCode != 429 || requests != 1 {
					t.Fatalf("got %v, %v after %d requests; want the refusal after 1", resp, err, requests)
				}
				if text, err := io.ReadAll(resp.Body); string(text) != "your plan is used up" || err != nil ||
					answer.closed.Load() != 0 {
					t.Errorf("got %q, %v; want all of the answer", text, err)
				}
				for i, b := range bodies {
					if b.closed.Load() != 1 || b.read.Load() != 0 {
						t.Errorf("body %d was closed %d times and read %d times, want 1 and 0", i, b.closed.Load(), b.read.Load())
					}
				}
				if len(bodies) != 2 {
					t.Errorf("%d bodies, want that of the request and of its repeat", len(bodies))
				}
			})
		})
	}
}

// stalling is a body without end that sends nothing until it is closed.
type stalling struct {
	read bool
	done chan struct{}
}

func (s *stalling) Read([]byte) (int, error) {
	s.read = true
	<-s.done
	return 0, io.ErrUnexpectedEOF
}

func (s *stalling) Close() error {
	select {
	case <-s.done:
	default:
		close(s.done)
	}
	return nil
}

// A refusal whose body does not come holds nobody up, and one without a length is not even read.
func TestTransportDoesNotWaitForRefusals(t *testing.T) {
	for _, test := range []struct {
		name   string
		length int64
		read   bool
		waits  time.Duration
	}{
		{"short", 100, true, 100 * time.Millisecond},
		{"of unknown length", -1, false, 0},
		{"long", 1 << 20, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, body, requests := time.Now(), &stalling{done: make(chan struct{})}, 0
				base := roundTrip(func(req *http.Request) (*http.Response, error) {
					if requests++; requests > 1 {
						return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: req},
							nil
					}
					return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"1"}}, Body: body,
						ContentLength: test.length, Request: req}, nil
				})
				api := igdb()
				api.Retries = 1
				c, _ := newProcess(t, memory(t), api, base)
				if got := callRemote(t, c); got != 200 || body.read != test.read {
					t.Errorf("status %d, read %v; want 200, %v", got, body.read, test.read)
				}
				if got, want := time.Since(start), time.Second+test.waits; got != want {
					t.Errorf("it took %v, want %v", got, want)
				}
				<-body.done // closed in any case
			})
		})
	}
}

// A transport further in that breaks the contract of http.RoundTripper is no reason to panic.
func TestTransportWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := igdb()
		api.Retries = 1
		c, _ := newProcess(t, memory(t), api,
			roundTrip(func(*http.Request) (*http.Response, error) { return nil, nil }))
		if _, err := c.Get("http://igdb.test"); err == nil {
			t.Error("no answer and no error")
		}
		c, _ = newProcess(t, memory(t), api, roundTrip(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 429, Request: req}, nil
		}))
		req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://igdb.test", nil)
		if resp, err := c.Transport.RoundTrip(req); err != nil || resp.StatusCode != 429 {
			t.Errorf("got %v, %v; want the refusal", resp, err)
		}
	})
}

func TestTransportNeedsAnAPI(t *testing.T) {
	defer func() {
		want := "httplimit: NewTransport: the API is nil; want one of an outbound.Registry"
		if got := recover(); got != want {
			t.Errorf("got %v, want %q", got, want)
		}
	}()
	httplimit.NewTransport(nil, nil)
}

// One of our own servers with the last place taken is no reason to pause: nobody says until when.
func TestTransportDoesNotPauseForPlaces(t *testing.T) {
	h := httplimit.By(httplimit.Everyone(), stint.AtOnce(1, time.Minute))(ok)
	c, gate := newProcess(t, memory(t), outbound.API{Name: "own", Limits: []stint.Limit{stint.PerSecond(1000)}},
		roundTrip(func(req *http.Request) (*http.Response, error) { return ask(h, "/").Result(), nil }))
	if got := callRemote(t, c); got != 200 || gate.Stats().Cooldowns != 0 {
		t.Errorf("status %d, stats are %+v; want no pause", got, gate.Stats())
	}
}
