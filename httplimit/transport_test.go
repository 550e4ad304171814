package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/middleware"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/outbound"
)

// The caller gets the refusal as it is, unless repeating was asked for.
func TestTransportRepeats(t *testing.T) {
	type script = []func(http.ResponseWriter)
	refused, unavailable := answerWith(429, "Retry-After", "2"), answerWith(503, "Retry-After", "3")
	once := script{refused, answerFine}
	tests := []struct {
		name     string
		retries  int
		method   string
		fields   string
		body     string
		script   script
		status   int
		requests int
	}{
		{"not unless asked", 0, "GET", "", "", once, 429, 1},
		{"once", 1, "GET", "", "", once, 200, 2},
		{"no more than needed", 5, "GET", "", "", script{refused, unavailable, answerFine}, 200, 3},
		{"no more than asked", 2, "GET", "", "", script{refused}, 429, 3},
		{"bare refusal", 2, "GET", "", "", script{answerWith(429), answerFine}, 200, 2},
		{"bare unavailable", 2, "GET", "", "", script{answerWith(503), answerFine}, 503, 1},
		{"unavailable, nothing left", 2, "GET", "", "",
			script{answerWith(503, "RateLimit", `"a";r=0;t=1`), answerFine}, 503, 1},
		{"failed", 2, "GET", "", "", script{answerWith(500, "Retry-After", "1"), answerFine}, 500, 1},
		{"head", 2, "HEAD", "", "", once, 200, 2},
		{"options", 2, "OPTIONS", "", "", once, 200, 2},
		{"trace", 2, "TRACE", "", "", once, 200, 2},
		{"delete", 2, "DELETE", "", "", once, 200, 2},
		{"put", 2, "PUT", "", "all of it", once, 200, 2},
		{"put, body once", 2, "PUT", "", "stream", once, 429, 1},
		{"post", 2, "POST", "", "all of it", once, 429, 1},
		{"post without a body", 2, "POST", "", "", once, 429, 1},
		{"patch", 2, "PATCH", "", "all of it", script{unavailable, answerFine}, 503, 1},
		{"post with a key", 2, "POST", "Idempotency-Key", "all of it", once, 200, 2},
		{"patch with a key", 2, "PATCH", "X-Idempotency-Key", "all of it", once, 200, 2},
	}
	for _, test := range tests {
		testkit.InBubble(t, test.name, func(t *testing.T) {
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
			req := outgoing(t, test.method, "http://igdb.test/games", body)
			if test.fields != "" {
				req.Header.Set(test.fields, "order-7781")
			}
			resp, _ := fetch(t, c.Transport, req)
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
	}
}

// The contract of http.RoundTripper: the request is not modified, bodies are closed.
func TestTransportKeepsTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers []*watched
		base := testkit.RoundTrip(func(req *http.Request) (*http.Response, error) {
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
		req := outgoing(t, "PUT", "http://igdb.test/games", strings.NewReader("body"))
		original := req.Body
		resp := testkit.Must(c.Transport.RoundTrip(req))(t)
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
			testkit.RoundTrip(func(*http.Request) (*http.Response, error) { return nil, failed }))
		if _, err := down.Get("http://igdb.test"); !errors.Is(err, failed) || gate.Stats().Cooldowns != 0 {
			t.Errorf("got %v, want %v", err, failed)
		}
	})
}

// endless is a body without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A caller without a turn for a repeat gets the API's whole answer, and the body of the repeat is
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
		testkit.InBubble(t, test.name, func(t *testing.T) {
			requests := 0
			answer := &watched{Reader: strings.NewReader("your plan is used up")}
			base := testkit.RoundTrip(func(req *http.Request) (*http.Response, error) {
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
			req := outgoing(t, "PUT", "http://igdb.test/games", first).WithContext(ctx)
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

// A refusal whose body does not arrive delays a repeat only briefly, and one without a length is not read.
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
		testkit.InBubble(t, test.name, func(t *testing.T) {
			start, body, requests := time.Now(), &stalling{done: make(chan struct{})}, 0
			base := testkit.RoundTrip(func(req *http.Request) (*http.Response, error) {
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
	}
}

// A transport further in that breaks the contract of http.RoundTripper is no reason to panic.
func TestTransportWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := igdb()
		api.Retries = 1
		c, _ := newProcess(t, memory(t), api,
			testkit.RoundTrip(func(*http.Request) (*http.Response, error) { return nil, nil }))
		if _, err := c.Get("http://igdb.test"); err == nil {
			t.Error("no answer and no error")
		}
		c, _ = newProcess(t, memory(t), api, testkit.RoundTrip(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 429, Request: req}, nil
		}))
		req := outgoing(t, "GET", "http://igdb.test", nil)
		if resp, err := c.Transport.RoundTrip(req); err != nil || resp.StatusCode != 429 {
			t.Errorf("got %v, %v; want the refusal", resp, err)
		}
	})
}

// A server of our own with all places taken is no reason to pause: it names no time.
func TestTransportDoesNotPauseForPlaces(t *testing.T) {
	h := httplimit.By(httplimit.Everyone(), stint.Concurrency(1, time.Minute))(ok)
	c, gate := newProcess(t, memory(t), outbound.API{Name: "own", Limits: []stint.Limit{stint.PerSecond(1000)}},
		testkit.RoundTrip(func(req *http.Request) (*http.Response, error) { return ask(h, "/").Result(), nil }))
	if got := callRemote(t, c); got != 200 || gate.Stats().Cooldowns != 0 {
		t.Errorf("status %d, stats are %+v; want no pause", got, gate.Stats())
	}
}

// A transport charges an estimate, and then what the response says, and passes every byte on.
func TestTransportUsage(t *testing.T) {
	const request = `{"max_tokens":100,"messages":"1234567890"}`
	const events = "data: {\"choices\":[]}\n\ndata: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":30}}\n\ndata: [DONE]\n\n"
	for _, test := range []struct {
		name    string
		answer  func(w http.ResponseWriter)
		closes  bool // the caller does, before the end
		want    int64
		reading string
	}{
		{"a stream", func(w http.ResponseWriter) { io.WriteString(w, events) }, false, 37, events},
		{"closed early", func(w http.ResponseWriter) { io.WriteString(w, events) }, true, 111, ""},
		{"an error", func(w http.ResponseWriter) { w.WriteHeader(400); io.WriteString(w, "no") }, false, 0, "no"},
		{"too many", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(429)
		}, false, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if body, err := io.ReadAll(r.Body); err != nil || string(body) != request ||
					r.ContentLength != int64(len(request)) {
					t.Errorf("got %q, %d announced, %v", body, r.ContentLength, err)
				}
				w.Header().Set("Content-Type", "text/event-stream")
				test.answer(w)
			}))
			defer remote.Close()
			tokens := stint.PerHour(10_000)
			tokens.Name = "tokens"
			client, api := newProcess(t, memory(t), outbound.API{
				Name: "model", Limits: []stint.Limit{tokens, stint.PerDay(100)}, Usage: "openai"}, nil)
			resp := testkit.Must(client.Post(remote.URL, "application/json", strings.NewReader(request)))(t)
			if d, err := api.Peek(t.Context()); err != nil || d.Banned {
				// A 429 pauses calls; what is used is seen all the same.
				if test.name != "too many" {
					t.Fatal(d, err)
				}
			} else if got := d.Usages()[0].Used; resp.StatusCode == 200 && got != 111 {
				t.Errorf("%d tokens are held, want 111", got)
			}
			if !test.closes {
				if body, err := io.ReadAll(resp.Body); err != nil || string(body) != test.reading {
					t.Errorf("read %q, %v", body, err)
				}
			}
			resp.Body.Close()
			d, err := api.Peek(t.Context())
			if got := fmt.Sprint(d.Usages()[0].Used, d.Usages()[1].Used, err); got != fmt.Sprint(test.want, 1, nil) {
				t.Errorf("used %s, want %d tokens and a call", got, test.want)
			}
		})
	}
}

// All processes apply the pause that one answer asks for.
func TestTransportObeys(t *testing.T) {
	tests := []struct {
		name   string
		answer func(http.ResponseWriter)
		pause  time.Duration
	}{
		{"nothing", answerWith(200), 0},
		{"too many", answerWith(429), middleware.DefaultRetryAfter},
		{"too many, absurd", answerWith(429, "Retry-After", "99999999999999999999"), 15 * time.Minute},
		{"nothing left", answerWith(200, "RateLimit", `"default";r=0;t=12`), 12 * time.Second},
	}
	for _, test := range tests {
		testkit.InBubble(t, test.name, func(t *testing.T) {
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
	}
}
