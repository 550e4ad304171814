package gateway_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/config"
)

// The body is sent only if the upstream asks for it.
func TestExpectContinue(t *testing.T) {
	u := rawUpstream(t, func(conn net.Conn, r *bufio.Reader) {
		head := readHead(r)
		if !strings.Contains(head, "Expect: 100-continue\r\n") {
			io.WriteString(conn, "HTTP/1.1 500 No Expect\r\nContent-Length: 0\r\n\r\n")
			return
		}
		if strings.HasPrefix(head, "POST /no") {
			io.WriteString(conn, "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n")
			return
		}
		io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
		body := make([]byte, 4)
		io.ReadFull(r, body)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"+string(body))
	})
	g := front(t, open, u)
	const head = " HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"

	conn := dial(t, g)
	answers := bufio.NewReader(conn)
	io.WriteString(conn, "POST /yes"+head)
	if line := readHead(answers); !strings.HasPrefix(line, "HTTP/1.1 100 Continue\r\n") {
		t.Fatalf("got %q, want 100", line)
	}
	io.WriteString(conn, "body")
	resp := response(t, answers)
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(body) != "body" {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}

	conn = dial(t, g)
	io.WriteString(conn, "POST /no"+head)
	if line := readHead(bufio.NewReader(conn)); !strings.HasPrefix(line, "HTTP/1.1 417 ") {
		t.Errorf("got %q, want 417 and no 100", line)
	}
}

// A body of any size passes unharmed, and the connection is kept.
func TestLargeBodies(t *testing.T) {
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
	})
	g := front(t, open, u.URL)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MB
	for name, body := range map[string]io.Reader{"length": bytes.NewReader(sent), "chunked": io.MultiReader(bytes.NewReader(sent))} {
		resp, got := do(t, "POST", g.URL, body)
		if got != string(sent) {
			t.Errorf("%s: the body came back with %d bytes, want the same %d", name, len(got), len(sent))
		}
		if resp.Close {
			t.Errorf("%s: the connection was not kept", name)
		}
	}
}

// Informational responses pass, and take nothing away from the final one.
func TestEarlyHints(t *testing.T) {
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("X-RateLimit-Limit", "the upstream's")
		w.Header().Set("X-RateLimit-Other", "the upstream's")
		io.WriteString(w, "done")
	})
	g := front(t, open, u.URL)
	var hints []string
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hints = append(hints, fmt.Sprint(code, " ", h.Get("Link")))
		return nil
	}}
	r := request(t, "GET", g.URL, nil)
	resp := send(t, http.DefaultTransport, r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if want := []string{"103 </style.css>"}; !slices.Equal(hints, want) {
		t.Errorf("got %q, want %q", hints, want)
	}
	if got := resp.Header.Values("X-RateLimit-Limit"); !slices.Equal(got, []string{"1000000"}) {
		t.Errorf("X-RateLimit-Limit: got %q, want the gateway's once", got)
	}
	if got := resp.Header.Get("X-RateLimit-Other"); got != "the upstream's" {
		t.Errorf("X-RateLimit-Other: got %q", got)
	}
}

func TestHead(t *testing.T) {
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1234")
		w.Header().Set("X-Method", r.Method)
	})
	g := front(t, open, u.URL)
	resp, body := do(t, "HEAD", g.URL, nil)
	if resp.ContentLength != 1234 || body != "" || resp.Header.Get("X-Method") != "HEAD" {
		t.Errorf("got %d bytes of %d, %v", len(body), resp.ContentLength, resp.Header)
	}
	nowhere := serve(t, newGateway(t, open, config.Gateway{Routes: []config.Route{{PathPrefix: "/a", Upstream: u.URL}}}))
	if resp, body := do(t, "HEAD", nowhere.URL, nil); resp.StatusCode != 404 || body != "" || resp.ContentLength == 0 {
		t.Errorf("without a route: got %d %q", resp.StatusCode, body)
	}
}
