package httplimit_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/retryafter"
)

// Golden examples 2 and 3: the fifth fails at once, and a look shows what remains.
func TestTransportFailsFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, api := newRemote(t, answerFine), igdb()
		api.FailFast = true
		c, gate := newProcess(t, memory(t), api, r)
		for range 3 {
			callRemote(t, c)
		}
		if d, err := gate.Peek(t.Context()); err != nil || !d.Allowed || d.Remaining() != 1 {
			t.Errorf("%d remain, %v; want 1", d.Remaining(), err)
		}
		callRemote(t, c)
		time.Sleep(150 * time.Millisecond)
		body := &watched{Reader: strings.NewReader("search")}
		_, err := c.Post("http://igdb.test/games", "text/plain", body)
		denied, ok := errors.AsType[*stint.DeniedError](err)
		if !ok || denied.Key != "igdb:api" || denied.RetryAfter != 850*time.Millisecond {
			t.Errorf("got %v, want a denial for 850ms", err)
		}
		if !strings.Contains(err.Error(), "rate limit exceeded for key 'igdb:api'") {
			t.Errorf("got %q", err)
		}
		if body.closed.Load() == 0 || body.read.Load() != 0 {
			t.Error("the body of a request that is not sent is closed, not read")
		}
		if got := r.requests(); got != 4 {
			t.Errorf("%d requests, want 4", got)
		}
	})
}

// What the API says in an answer, all processes do.
func TestTransportObeys(t *testing.T) {
	tests := []struct {
		name   string
		answer func(http.ResponseWriter)
		pause  time.Duration
	}{
		{"nothing", answerWith(200), 0},
		{"too many", answerWith(429), retryafter.Default},
		{"too many, absurd", answerWith(429, "Retry-After", "99999999999999999999"), 15 * time.Minute},
		{"nothing left", answerWith(200, "RateLimit", `"default";r=0;t=12`), 12 * time.Second},
		{"by its own clock", answerWith(429, "Date", "Fri, 15 Jan 2027 08:00:00 GMT", "X-RateLimit-Remaining", "0",
			"X-RateLimit-Reset", "1800000060"), time.Minute},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, store := newRemote(t, test.answer, answerFine), memory(t)
				a, told := newProcess(t, store, igdb(), r)
				b, _ := newProcess(t, store, igdb(), r)
				callRemote(t, a)
				synctest.Wait()
				callRemote(t, b)
				callRemote(t, a)
				wantTimes(t, r, 0, test.pause, test.pause)
				if s := told.Stats(); (s.Cooldowns == 1) != (test.pause > 0) {
					t.Errorf("stats are %+v", s)
				}
			})
		})
	}
}

// The caller gets the refusal as it is, unless repeating was asked for.
func TestTransportRepeats(t *testing.T) {
	refused, unavailable := answerWith(429, "Retry-After", "2"), answerWith(503, "Retry-After", "3")
	tests := []struct {
		name     string
		retries  int
		method   string
		fields   string
		body     string
		script   []func(http.ResponseWriter)
		status   int
		requests int
	}{
		{"not unless asked", 0, "GET", "", "", []func(http.ResponseWriter){refused, answerFine}, 429, 1},
		{"once", 1, "GET", "", "", []func(http.ResponseWriter){refused, answerFine}, 200, 2},
		{"no more than needed", 5, "GET", "", "",
			[]func(http.ResponseWriter){refused, unavailable, answerFine}, 200, 3},
		{"no more than asked", 2, "GET", "", "", []func(http.ResponseWriter){refused}, 429, 3},
		{"bare refusal", 2, "GET", "", "", []func(http.ResponseWriter){answerWith(429), answerFine}, 200, 2},
		{"bare unavailable", 2, "GET", "", "", []func(http.ResponseWriter){answerWith(503), answerFine}, 503, 1},
		{"unavailable, nothing left", 2, "GET", "", "",
			[]func(http.ResponseWriter){answerWith(503, "RateLimit", `"a";r=0;t=1`), answerFine}, 503, 1},
		{"failed", 2, "GET", "", "", []func(http.ResponseWriter){answerWith(500, "Retry-After", "1"), answerFine}, 500,
			1},
		{"head", 2, "HEAD", "", "", []func(http.ResponseWriter){refused, answerFine}, 200, 2},
		{"options", 2, "OPTIONS", "", "", []func(http.ResponseWriter){refused, answerFine}, 200, 2},
		{"trace", 2, "TRACE", "", "", []func(http.ResponseWriter){refused, answerFine}, 200, 2},
		{"delete", 2, "DELETE", "", "", []func(http.ResponseWriter){refused, answerFine}, 200, 2},
		{"put", 2, "PUT", "", "all of it", []func(http.ResponseWriter){refused, answerFine}, 200, 2},
		{"put, body once", 2, "PUT", "", "stream", []func(http.ResponseWriter){refused, answerFine}, 429, 1},
		{"post", 2, "POST", "", "all of it", []func(http.ResponseWriter){refused, answerFine}, 429, 1},
		{"post without a body", 2, "POST", "", "", []func(http.ResponseWriter){refused, answerFine}, 429, 1},
		{"patch", 2, "PATCH", "", "all of it", []func(http.ResponseWriter){unavailable, answerFine}, 503, 1},
		{"post with a key", 2, "POST", "Idempotency-Key", "all of it",
			[]func(http.ResponseWriter){refused, answerFine}, 200, 2},
		{"patch with a key", 2, "PATCH", "X-Idempotency-Key", "all of it",
			[]func(http.ResponseWriter){refused, answerFine}, 200, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, api := newRemote(t, test.script...), igdb()
				api.Retries = test.retries
				c, gate := newProcess(t, memory(t), api, r)
				var body io.Reader
				switch test.body {
				case "":
				case "stream":
					body = io.MultiReader(strings.NewReader(test.body)) // cannot be had again
				default:
					body = strings.NewReader(test.body)
				}
				req, err := http.NewRequestWithContext(t.Context(), test.method, "http://igdb.test/games", body)
				if err != nil {
					t.Fatal(err)
				}
				if test.fields != "" {
					req.Header.Set(test.fields, "order-7781")
				}
				resp, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if resp.StatusCode != test.status || r.requests() != test.requests {
					t.Errorf("status %d after %d requests, want %d after %d", resp.StatusCode, r.requests(),
						test.status, test.requests)
				}
				if got := gate.Stats().Calls; got != int64(test.requests) {
					t.Errorf("%d calls were admitted, want one for each request", got)
				}
				for i, got := range r.bodies {
					if got != test.body {
						t.Errorf("body %d is %q, want %q", i, got, test.body)
					}
				}
			})
		})
	}
}

// roundTrip is a transport made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// The contract of http.RoundTripper: the request is not modified, bodies are closed.
func TestTransportKeepsTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers []*watched
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			sent, _ := io.ReadAll(req.Body)
			if _ = req.Body.Close(); string(sent) != "body" {
				t.Errorf("sent %q, want all of it", sent)
			}
			body := &watched{Reader: io.LimitReader(endless{}, 1<<30)}
			answers = append(answers, body)
			return &http.Response{StatusCode: 429, Header: http.Header{}, Body: body, Request: req}, nil
		})
		api := igdb()
		api.Retries = 2
		c, _ := newProcess(t, memory(t), api, base)
		req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://igdb.test/games", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		original := req.Body
		resp, err := c.Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if req.Body != original || len(req.Header) != 0 {
			t.Errorf("the request was modified: %+v", req)
		}
		if len(answers) != 3 || resp.Body != io.ReadCloser(answers[2]) {
			t.Fatalf("%d answers, want 3 and the last one", len(answers))
		}
		for i, want := range []int64{1, 1, 0} {
			if got := answers[i].closed.Load(); got != want {
				t.Errorf("answer %d was closed %d times, want %d", i, got, want)
			}
		}
		// The failure of the network is the caller's to see, and no reason to pause.
		failed := errors.New("connection refused")
		down, gate := newProcess(t, memory(t), api,
			roundTrip(func(*http.Request) (*http.Response, error) { return nil, failed }))
		if _, err := down.Get("http://igdb.test"); !errors.Is(err, failed) || gate.Stats().Cooldowns != 0 {
			t.Errorf("got %v, want %v", err, failed)
		}
	})
}

// endless is a body without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
