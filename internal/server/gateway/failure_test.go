package gateway_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/testkit"
)

// problem is an answer of the gateway's own.
type problem struct {
	Error     string `json:"error"`
	Message   string `json:"message"`
	RequestID string `json:"request_id"`
}

// wantProblem checks an answer of the gateway's own.
func wantProblem(t *testing.T, resp *http.Response, body string, status int, word string) {
	t.Helper()
	var p problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	if resp.StatusCode != status || p.Error != word || p.Message == "" || p.RequestID == "" {
		t.Errorf("got %d %q, want %d %s", resp.StatusCode, body, status, word)
	}
	h := resp.Header
	if h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "no-store" ||
		h.Get("X-RateLimit-Limit") == "" {
		t.Errorf("header: got %v", h)
	}
}

// unused is an address without a listener.
func unused(t *testing.T) string {
	t.Helper()
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

func TestUpstreamFailures(t *testing.T) {
	answer := func(text string) string {
		return rawUpstream(t, func(conn net.Conn, r *bufio.Reader) {
			readHead(r)
			io.WriteString(conn, text)
		})
	}
	silent := rawUpstream(t, func(_ net.Conn, r *bufio.Reader) { io.Copy(io.Discard, r) })
	chatty := rawUpstream(t, func(conn net.Conn, r *bufio.Reader) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		io.Copy(io.Discard, r)
	})
	for _, c := range []struct {
		name, upstream string
		status         int
		word           string
	}{
		{"down", "http://" + unused(t), 502, "bad_gateway"},
		{"closes at once", rawUpstream(t, func(net.Conn, *bufio.Reader) {}), 502, "bad_gateway"},
		{"no HTTP", answer("SSH-2.0-OpenSSH\r\n"), 502, "bad_gateway"},
		{"two lengths", answer("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), 502, "bad_gateway"},
		{"endless head", answer("HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 2<<20) + "\r\n\r\n"), 502,
			"bad_gateway"},
		{"does not answer", silent, 504, "gateway_timeout"},
		{"does not shake hands", "https" + strings.TrimPrefix(silent, "http"), 504, "gateway_timeout"},
		{"no TLS", "https" + strings.TrimPrefix(chatty, "http"), 502, "bad_gateway"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, log := logged(c.upstream)
			if c.status == http.StatusGatewayTimeout {
				config.ResponseHeaderTimeout, config.TLSHandshakeTimeout = time.Hour, 50*time.Millisecond
				config.Routes[0].ResponseHeaderTimeout = 50 * time.Millisecond // a route's own goes first
			}
			g := serve(t, newGateway(t, open, config))
			resp, body := do(t, "GET", g.URL+"/path?query", nil)
			wantProblem(t, resp, body, c.status, c.word)
			if strings.Contains(body, "127.0.0.1") || resp.Header.Get("Link") != "" {
				t.Errorf("something of the upstream shows: %s %v", body, resp.Header)
			}
			log.Await(t, "cause=")
			if line := log.String(); !strings.Contains(line, "level=WARN") || !strings.Contains(body, field(line, "request_id")) {
				t.Errorf("log: got %s", line)
			}
		})
	}
}

// A response that breaks off is not made to look complete.
func TestBrokenResponses(t *testing.T) {
	for name, text := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfive!",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfive!\r\n",
	} {
		c, log := logged(rawUpstream(t, func(conn net.Conn, r *bufio.Reader) {
			readHead(r)
			io.WriteString(conn, text)
		}))
		resp, err := http.Get(serve(t, newGateway(t, open, c)).URL)
		if err != nil {
			continue // the connection was closed before anything was sent
		}
		if body, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%s: got %q as if it were complete", name, body)
		}
		resp.Body.Close()
		log.Await(t, "aborted=true")
	}
}

// When a client goes away, the request to the upstream ends too, and is not refunded.
func TestClientAborts(t *testing.T) {
	const text = "tiers: [{name: all, identity: ip, limits: 3/1h}]\npolicies: [{name: fragile, match: {path: /**}, refund: 5xx}]\n"
	asked, gone := make(chan bool, 1), make(chan bool, 1)
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			return
		case "/body":
			io.WriteString(w, "beginning\n")
			http.NewResponseController(w).Flush()
		}
		asked <- true
		<-r.Context().Done()
		gone <- true
	})
	for path, status := range map[string]string{"/head": "499", "/body": "200"} {
		c, log := logged(u.URL)
		g := serve(t, newGateway(t, text, c))
		conn := dial(t, g)
		io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
		receive(t, "the upstream's request", asked)
		if path == "/body" {
			readHead(bufio.NewReader(conn))
		}
		conn.Close()
		receive(t, "the upstream's end", gone)
		log.Await(t, "\n")
		if line := log.String(); field(line, "status") != status || !strings.Contains(line, "level=INFO") {
			t.Errorf("%s: got %s, want the status %s", path, line, status)
		}
		if resp, _ := do(t, "GET", g.URL, nil); resp.Header.Get("X-RateLimit-Remaining") != "1" {
			t.Errorf("%s: got %s left, want 1", path, resp.Header.Get("X-RateLimit-Remaining"))
		}
	}
}

func TestMaxBody(t *testing.T) {
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Write(body)
	})
	c := to(u.URL)
	c.MaxBody = 10
	g := serve(t, newGateway(t, open, c))
	for _, size := range []int{10, 11, 1 << 20} {
		for _, chunked := range []bool{false, true} {
			var body io.Reader = strings.NewReader(strings.Repeat("x", size))
			if chunked {
				body = io.MultiReader(body)
			}
			resp, err := http.DefaultTransport.RoundTrip(request(t, "POST", g.URL, body))
			if err != nil { // the client was still sending when the connection was closed
				if size <= 10 || !isReset(err) {
					t.Errorf("%d bytes: %v", size, err)
				}
				continue
			}
			got, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if size <= 10 && (resp.StatusCode != 200 || len(got) != size) {
				t.Errorf("%d bytes, chunked %v: got %d %s", size, chunked, resp.StatusCode, got)
			}
			if size > 10 {
				wantProblem(t, resp, string(got), 413, "too_large")
			}
		}
	}
}

func isReset(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	return ok || errors.Is(err, io.EOF)
}

// No request is sent to an upstream twice.
func TestNothingIsTriedTwice(t *testing.T) {
	requests := make(chan string, 10)
	u := rawUpstream(t, func(_ net.Conn, r *bufio.Reader) { requests <- readHead(r) })
	g := front(t, open, u)
	for range 2 {
		resp, body := do(t, "POST", g.URL, strings.NewReader("body"))
		wantProblem(t, resp, body, 502, "bad_gateway")
	}
	if got := len(requests); got != 2 {
		t.Errorf("got %d requests, want 2", got)
	}
}
