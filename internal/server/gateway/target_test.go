package gateway_test

import (
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stint-limiter/stint/internal/server/gateway"
)

// What servers read in different ways is refused before it is charged, passed on or refunded, and
// said to be; what only looks odd passes.
func TestF47Targets(t *testing.T) {
	var reached atomic.Int32
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) { reached.Add(1); echo(w, r) })
	const text = "tiers: [{name: all, identity: ip, limits: 1000000/1m}]\npolicies: [{name: refunded, match: {path: /**}, refund: [4xx, 5xx]}]\n"
	strict := front(t, text, u.URL)
	lenient := front(t, text+"gateway: {unusual_paths: pass}\n", u.URL)
	for _, test := range []struct {
		target string
		strict int
		passed string // to the upstream, with unusual_paths: pass; "" if it never is
	}{
		{`/login#x`, 400, "/login%23x"},
		{`/#/../login`, 400, ""},
		{`/?q=a#b`, 400, "/?q=a#b"},
		{`http://x/login#x`, 400, "/login%23x"},
		{`/a\\b`, 400, "/a%5C%5Cb"},
		{`/x\login`, 400, "/x%5Clogin"},
		{`/x\..\login`, 400, ""},
		{`/\x/login`, 400, "/%5Cx/login"},
		{"/a\x01b", 400, ""},
		{"/a\x7fb", 400, ""},
		{"/a?b\x7f", 400, ""},
		{"/a\tb", 400, ""},
		{`/a%23b`, 200, "/a%23b"},
		{`/a%5Cb`, 200, "/a%5Cb"},
		{`/a%7F%01`, 200, "/a%7F%01"},
		{"/caf\xc3\xa9", 200, "/caf%C3%A9"},
		{`/?q=a\b`, 200, `/?q=a\b`},
		{`/?q=%23\..\`, 200, `/?q=%23\..\`},
		{`/https://x.example/a`, 200, "/https://x.example/a"},
		{`//a/b`, 200, "//a/b"},
		{`/bucket/a..b/%20c.`, 200, "/bucket/a..b/%20c."},
	} {
		send := func(addr string) string {
			return talk(t, dial(t, addr), "GET "+test.target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		}
		before := reached.Load()
		got := send(strict.Listener.Addr().String())
		if !strings.HasPrefix(got, "HTTP/1.1 "+itoa(test.strict)) {
			t.Errorf("%q: got %s, want %d", test.target, got, test.strict)
		}
		if test.strict == 400 && (reached.Load() != before || strings.Contains(got, "X-Ratelimit")) {
			t.Errorf("%q: it was judged or passed on: %s", test.target, got)
		}
		got = send(lenient.Listener.Addr().String())
		if want := "GET " + test.passed + "\n"; test.passed != "" && !strings.Contains(got, want) ||
			test.passed == "" && !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("%q, passed: got %s, want %q", test.target, got, want)
		}
	}
	if got := talk(t, dial(t, strict.Listener.Addr().String()), "GET /a\\b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.Contains(
		got, "encode them as %5C and %23") {
		t.Errorf("got %s", got)
	}
}

// Methods pass as they are, in any case. One that is no token is refused before it is charged: in
// HTTP/2 nobody else looks, and that it cannot be sent would be taken for the upstream's fault, and
// refunded.
func TestF47Methods(t *testing.T) {
	u := upstream(t, echo)
	judged := &counted{}
	c := to(u.URL)
	c.Logger = discard
	g, err := gateway.New(observed(t, judged), c)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	s := serveHTTP2(t, g)
	for _, method := range []string{"POST", "post", "patch", "PROPFIND", "M-SEARCH", "x!#$%&'*+-.^_`|~1"} {
		got := talk(t, dial(t, s.Listener.Addr().String()), method+" / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		if !strings.Contains(got, "\n"+method+" /\n") {
			t.Errorf("%s: the upstream got %s", method, got)
		}
	}
	before := judged.n
	for _, method := range []string{"PO ST", `PO"ST`, "PO/ST", "POST:", "P\xc3\x96ST", "(POST)"} {
		if got := talk(t, dial(t, s.Listener.Addr().String()), method+" / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("%q: got %s, want 400", method, got)
		}
		// A client of Go would not send it.
		r, body := rawHTTP2(t, s.Listener.Addr().String(), method)
		if r != 400 || !strings.Contains(body, "The method is not a token.") {
			t.Errorf("%q in HTTP/2: got %d %s, want 400", method, r, body)
		}
	}
	if judged.n != before {
		t.Errorf("%d requests with other methods were judged", judged.n-before)
	}
}

// rawHTTP2 sends a request that no client would, and returns the status, 400 or another, and the
// body.
func rawHTTP2(t *testing.T, addr, method string) (status int, body string) {
	t.Helper()
	conn := dial(t, addr)
	// The header block is the method, http, the host x and the path /.
	io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(4, 0, 0, "")+
		frame(1, 5, 1, "\x42"+string(rune(len(method)))+method+"\x86\x41\x01x\x84"))
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			t.Fatal(err)
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[:])>>8)
		if _, err := io.ReadFull(conn, payload); err != nil {
			t.Fatal(err)
		}
		switch kind, flags := head[3], head[4]; kind {
		case 0:
			body += string(payload)
			if flags&1 != 0 {
				return status, body
			}
		case 1:
			if payload[0] == 0x8c { // :status 400 in the table that all know
				status = 400
			}
		case 3, 7:
			return 0, "reset"
		}
	}
}
