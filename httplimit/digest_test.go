package httplimit_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/policy"
)

// derives has ids derived on one route. What callers have left is that of X-Who.
const derives = `
identities: {who: {header: X-Who}}
tiers:
  - {name: known, identity: who, limits: 1000/1h}
  - {name: all, identity: ip, limits: 1000/1h}
policies:
  - name: click
    match: {path: "/click/**"}
    cost: {header: X-Cost, max: 9}
    request_id: {header: Idempotency-Key, life: 1h, derive: 2s}
`

// echoed answers with the method and the body that a handler sees.
var echoed = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
	w.Header().Set("X-Method", r.Method)
	_, _ = w.Write(body)
})

// sent is a request of a test.
type sent struct {
	method, path, body string
	fields             string // "Name: value", each on a line
	chunked            bool
}

func (s sent) over(t *testing.T, client http.RoundTripper, url string) *http.Response {
	t.Helper()
	body := io.Reader(strings.NewReader(s.body))
	if s.chunked {
		body = struct{ io.Reader }{body}
	}
	r := outgoing(t, s.method, url+s.path, body)
	for line := range strings.SplitSeq(s.fields, "\n") {
		if name, value, _ := strings.Cut(line, ": "); name == "Host" {
			r.Host = value
		} else if name != "" {
			r.Header.Add(name, value)
		}
	}
	resp, got := fetch(t, client, r)
	want := s.body
	if s.method == http.MethodHead {
		want = ""
	}
	if resp.StatusCode == http.StatusOK && got != want {
		t.Errorf("the handler saw %d bytes, want all %d", len(got), len(want))
	}
	return resp
}

// Equal requests are charged once, whatever differs makes another one, and every handler sees its
// whole body.
func TestDerivedIDs(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	post := sent{"POST", "/click/a", "body", "X-Who: a", false}
	with := func(change func(*sent)) sent {
		s := post
		change(&s)
		return s
	}
	field := func(line string) sent { return with(func(s *sent) { s.fields += "\n" + line }) }
	text := func(body string) sent { return with(func(s *sent) { s.body = body }) }
	bare := func(method string) sent { return sent{method, "/click/a", "", "X-Who: a", false} }
	s := testkit.ServeHTTP2(t, httplimit.New(guardOf(t, derives))(echoed))
	clients := []*http.Transport{transportOf(t, false), transportOf(t, true)}
	for _, c := range []struct {
		what          string
		first, second sent
		charged       bool // the second one too
	}{
		{"the same", post, post, false},
		{"another body", post, text("bodY"), true},
		{"no body", post, text(""), true},
		{"another query", post, with(func(s *sent) { s.path += "?a=1" }), true},
		{"query and body change places", with(func(s *sent) { s.path += "?ab"; s.body = "c" }), with(func(s *sent) { s.path += "?a"; s.body = "bc" }), true},
		{"another path", post, with(func(s *sent) { s.path = "/click/b" }), true},
		{"another method", post, with(func(s *sent) { s.method = "PUT" }), true},
		{"another host", field("Host: a.example.com"), field("Host: b.example.com"), true},
		{"another port", field("Host: a.example.com"), field("Host: A.example.com:8080"), false},
		{"another cost", post, field("X-Cost: 9"), false}, // no budget: it is the same
		{"another header", post, field("X-Other: 1"), false},
		{"another route", with(func(s *sent) { s.path = "/other" }), with(func(s *sent) { s.path = "/other" }), true},
		{"as long as can be", text(long), text(long), false},
		{"too long", text(long + "x"), text(long + "x"), true},
		{"of unknown length", with(func(s *sent) { s.chunked = true }), with(func(s *sent) { s.chunked = true }), true},
		{"GET", bare("GET"), bare("GET"), false},
		{"HEAD", bare("HEAD"), bare("HEAD"), false},
		{"GET, then HEAD", bare("GET"), bare("HEAD"), true},
		{"Expect", field("Expect: 100-continue"), field("Expect: 100-continue"), false},
		{"the client's id, twice", field("Idempotency-Key: 1"), with(func(s *sent) { s.fields += "\nIdempotency-Key: 1"; s.body = "other" }), false},
		{"the client's ids", field("Idempotency-Key: 1"), field("Idempotency-Key: 2"), true},
		{"the client's id, then none", field("Idempotency-Key: 1"), post, true},
	} {
		for i, client := range clients {
			for k, r := range []sent{c.first, c.second, with(func(s *sent) { s.fields = "X-Who: b" })} {
				left := "999"
				if k == 1 && c.charged {
					left = "998"
				}
				r.fields = strings.Replace(r.fields, "X-Who: ", fmt.Sprintf("X-Who: %s, HTTP/%d, ", c.what, i+1), 1)
				if got := r.over(t, client, s.URL).Header.Get("X-RateLimit-Remaining"); got != left {
					t.Errorf("%s, HTTP/%d, request %d: %s left, want %s", c.what, i+1, k+1, got, left)
				}
			}
		}
	}
}

// piped serves a handler over pipes in a bubble, and returns a way to connect.
func piped(t *testing.T, h http.Handler) func() net.Conn {
	t.Helper()
	network := servePiped(t, h)
	return func() net.Conn {
		c := testkit.Must(network.dial(context.Background(), "", ""))(t)
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// exchange writes a request in pieces, with a pause before each but the first, and returns the
// response.
func exchange(t *testing.T, c net.Conn, pause time.Duration, pieces ...string) *http.Response {
	t.Helper()
	wrote := make(chan struct{})
	t.Cleanup(func() { <-wrote })
	go func() {
		defer close(wrote)
		for i, piece := range pieces {
			if i > 0 {
				time.Sleep(pause)
			}
			if _, err := io.WriteString(c, piece); err != nil {
				return
			}
		}
	}()
	resp := testkit.Must(http.ReadResponse(bufio.NewReader(c), nil))(t)
	body := testkit.Must(io.ReadAll(resp.Body))(t)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp
}

// decided is an observer that wants every request to be decided.
type decided struct{ t *testing.T }

func (d decided) Observe(_ context.Context, event stint.Event) {
	if v, ok := event.(*policy.Verdict); ok && v.Err != nil {
		d.t.Errorf("observed %v, want a decision", v.Err)
	}
}

const slowHead = "POST /click/a HTTP/1.1\r\nHost: a\r\nX-Who: a\r\nContent-Length: 4\r\n\r\n"

// The wait for a body is bounded, and a body that does not arrive is the client's failure only.
func TestDerivedIDsOfSlowBodies(t *testing.T) {
	for _, c := range []struct {
		what   string
		pause  time.Duration
		pieces []string
		want   int
		charge int64
	}{
		{"slow", 2 * time.Second, []string{slowHead, "b", "o", "d", "y"}, http.StatusOK, 1},
		{"too slow", 4 * time.Second, []string{slowHead, "b", "o", "d", "y"}, http.StatusRequestTimeout, 1},
		{"never", 0, []string{slowHead}, http.StatusRequestTimeout, 1},
		{"malformed", 0, []string{strings.Replace(slowHead, "Content-Length: 4", "Transfer-Encoding: chunked", 1),
			"zz\r\n"},
			http.StatusInternalServerError, 1}, // not read before: the handler sees it
	} {
		testkit.InBubble(t, c.what, func(t *testing.T) {
			var log bytes.Buffer
			guard := guardtest.New(t, memory(t), derives, policy.GuardConfig{
				Logger: slog.New(slog.NewTextHandler(&log, nil)), Observer: decided{t}})
			connect := piped(t, httplimit.New(guard, httplimit.WithError(
				func(http.ResponseWriter, *http.Request, error) { t.Error("WithError was called") }))(echoed))
			conn := connect()
			resp := exchange(t, conn, c.pause, c.pieces...)
			if resp.StatusCode != c.want {
				t.Fatalf("got %d, want %d", resp.StatusCode, c.want)
			}
			if log.Len() > 0 {
				t.Errorf("logged %s", log.String())
			}
			if c.want == http.StatusRequestTimeout {
				// The connection is of no more use, and is not kept.
				if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
					t.Errorf("after a 408: %d bytes and %v, want the end", n, err)
				}
			}
			resp = exchange(t, connect(), 0, slowHead, "else")
			wantFields(t, resp.Header, fmt.Sprint("X-RateLimit-Remaining: ", 999-c.charge))
		})
	}
}

// A body that exceeds the bound of an outer handler is answered with 413, and charged.
func TestDerivedIDsOfBodiesThatAreTooLarge(t *testing.T) {
	limited := httplimit.New(guardOf(t, derives))(echoed)
	s := testkit.ServeHTTP2(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 3)
		limited.ServeHTTP(w, r)
	}))
	post := sent{"POST", "/click/a", "body", "X-Who: a", false}
	if got := post.over(t, http.DefaultTransport, s.URL).StatusCode; got != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d, want 413", got)
	}
	post.body = "b"
	wantFields(t, post.over(t, http.DefaultTransport, s.URL).Header, "X-RateLimit-Remaining: 998")
}

// Behind a writer without deadlines nothing would bound the wait: every request is charged.
func TestDerivedIDsWithoutDeadlines(t *testing.T) {
	limited := httplimit.New(guardOf(t, derives))(echoed)
	s := testkit.ServeHTTP2(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limited.ServeHTTP(opaque{w}, r)
	}))
	post := sent{"POST", "/click/a", "body", "X-Who: a", false}
	post.over(t, http.DefaultTransport, s.URL)
	wantFields(t, post.over(t, http.DefaultTransport, s.URL).Header, "X-RateLimit-Remaining: 998")
}

// A request that costs more is not a repeat of one that cost less.
func TestDerivedIDsOfOtherCharges(t *testing.T) {
	const text = `
tiers: [{name: all, identity: everyone, limits: unlimited}]
policies:
  - {name: click, budget: 100/1h, cost: {header: X-Cost, max: 9}, request_id: {derive: 2s}}
  - {name: beta, match: {header: {X-Beta: "*"}}, limits: 100/1h}
`
	h := httplimit.New(guardOf(t, text), httplimit.WithVerdict())(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			v, _ := httplimit.FromContext(r.Context())
			fmt.Fprint(w, v.Decision.Repeat)
		}))
	for i, c := range []struct {
		field string
		want  string
	}{
		{"X-Cost: 1", "false"}, {"X-Cost: 9", "false"}, {"X-Cost: 1", "true"}, {"X-Beta: 1", "false"},
		{"X-Beta: 2", "true"},
	} {
		if got := ask(h, "/", c.field).Body.String(); got != c.want {
			t.Errorf("%d, %s: repeat is %s, want %s", i, c.field, got, c.want)
		}
	}
}

// The time for the body is not that of the handler: its context does not end with it, and the
// connection can be used again.
func TestDerivedIDsEndNoHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := httplimit.New(guardOf(t, derives))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Minute)
			if r.Context().Err() != nil {
				w.WriteHeader(http.StatusTeapot)
			}
		}))
		conn := piped(t, h)()
		for i := range 2 {
			if resp := exchange(t, conn, time.Second, slowHead, "body"); resp.StatusCode != http.StatusOK {
				t.Errorf("%d: got %d, want 200", i, resp.StatusCode)
			}
		}
	})
}

// A client that hangs up in the middle of a body is charged, whatever statuses are refunded, and
// its place is free again. No handler sees half a body.
func TestDerivedIDsOfBodiesThatEnd(t *testing.T) {
	const text = `
tiers: [{name: all, identity: ip, limits: 3/1h}]
policies:
  - {name: click, match: {path: /click/a}, request_id: {derive: 2s}, refund: [4xx, 5xx]}
  - {name: one, identity: everyone, limits: 1/1m concurrency}
`
	h := httplimit.New(guardOf(t, text))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			t.Error("the handler was called without a body")
		}
	}))
	s := testkit.ServeHTTP2(t, h)
	for range 2 {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err = io.WriteString(conn, slowHead+"bo"); err != nil {
			t.Fatal(err)
		}
		if err = conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		resp := testkit.Must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("got %d, want 400", resp.StatusCode)
		}
	}
	resp := sent{"GET", "/", "", "", false}.over(t, http.DefaultTransport, s.URL)
	if resp.StatusCode != http.StatusOK {
		t.Errorf("got %d, want 200", resp.StatusCode)
	}
	wantFields(t, resp.Header, "X-RateLimit-Remaining: 0")
}

// A client that is banned or has nothing left gets the usual answer even if it does not send its body.
func TestDerivedIDsOfTheDenied(t *testing.T) {
	const text = `
bans: {after: 2, within: 1h, durations: [24h]}
identities: {who: {header: X-Who}}
tiers: [{name: all, identity: [who, ip], limits: 1/1m}]
policies: [{name: click, match: {path: /click/a}, request_id: {derive: 2s}}]
`
	synctest.Test(t, func(t *testing.T) {
		connect := piped(t, httplimit.New(guardOf(t, text))(echoed))
		for i, want := range []int{408, 429, 429, 429} {
			if got := exchange(t, connect(), 0, slowHead, "bo").StatusCode; got != want {
				t.Errorf("%d: got %d, want %d", i, got, want)
			}
		}
		time.Sleep(time.Hour) // the limit has room again: the ban denies
		if got := exchange(t, connect(), 0, slowHead, "bo").StatusCode; got != http.StatusTooManyRequests {
			t.Errorf("banned: got %d, want 429", got)
		}
	})
}
