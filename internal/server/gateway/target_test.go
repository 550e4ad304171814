package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/stint-limiter/stint/internal/testkit"
)

// Targets that servers read in different ways are refused before they are charged, passed on or
// refunded; targets that only look odd pass.
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
		{`/x\login`, 400, "/x%5Clogin"},
		{`/x\..\login`, 400, ""},
		{`/\x/login`, 400, "/%5Cx/login"},
		{"/a\x01b", 400, ""},
		{"/a?b\x7f", 400, ""},
		{`/a%23b`, 200, "/a%23b"},
		{`/a%5Cb`, 200, "/a%5Cb"},
		{"/caf\xc3\xa9", 200, "/caf%C3%A9"},
		{"/caf\xe9", 400, ""},
		{"/a\xa0", 400, ""},
		{`/?q=a\b`, 200, `/?q=a\b`},
		{`/https://x.example/a`, 200, "/https://x.example/a"},
		{`/bucket/a..b/%20c.`, 200, "/bucket/a..b/%20c."},
		{"/a/../b", 400, ""},
		{"/a/%2e%2e/b", 400, ""},
		{"/a/..%2Fb", 400, ""},
		{"/a/..;x/b", 400, ""},
		{"/a/..%5Cb", 400, ""},
		{"/a/...", 200, "/a/..."},
		{"/?x=/../", 200, "/?x=/../"},
	} {
		head := "GET " + test.target + " HTTP/1.1\r\nHost: x"
		before := reached.Load()
		got := ask(t, strict, head)
		if !strings.HasPrefix(got, "HTTP/1.1 "+strconv.Itoa(test.strict)) {
			t.Errorf("%q: got %s, want %d", test.target, got, test.strict)
		}
		if test.strict == 400 && (reached.Load() != before || strings.Contains(got, "X-Ratelimit")) {
			t.Errorf("%q: it was judged or passed on: %s", test.target, got)
		}
		got = ask(t, lenient, head)
		if want := "GET " + test.passed + "\n"; test.passed != "" && !strings.Contains(got, want) ||
			test.passed == "" && !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("%q, passed: got %s, want %q", test.target, got, want)
		}
	}
	if got := ask(t, strict, "GET /a\\b HTTP/1.1\r\nHost: x"); !strings.Contains(got, "encode them as %5C and %23") {
		t.Errorf("got %s", got)
	}
}

// Methods pass unchanged. A method that is not a token is refused before it is charged: in HTTP/2
// only the gateway checks it, and the failure to send it would count as the upstream's, and be
// refunded.
func TestF47Methods(t *testing.T) {
	u := upstream(t, echo)
	guard, judged := judging(t)
	s := testkit.ServeHTTP2(t, gatewayOver(t, guard, to(u.URL)))
	for _, method := range []string{"POST", "post", "patch", "OPTIONS", "PROPFIND", "M-SEARCH", "x!#$%&'*+-.^_`|~1"} {
		if got := ask(t, s, method+" / HTTP/1.1\r\nHost: x\r\nContent-Length: 0"); !strings.Contains(got, "\n"+method+" /\n") {
			t.Errorf("%s: the upstream got %s", method, got)
		}
	}
	if got := ask(t, s, "CONNECT x:443 HTTP/1.1\r\nHost: x:443"); !strings.HasPrefix(got, "HTTP/1.1 405 ") {
		t.Errorf("CONNECT: got %s", got)
	}
	before := judged.Load()
	for _, method := range []string{"PO ST", `PO"ST`, "PO/ST", "POST:", "P\xc3\x96ST", "(POST)"} {
		if got := ask(t, s, method+" / HTTP/1.1\r\nHost: x"); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("%q: got %s, want 400", method, got)
		}
		// A client of Go would not send it.
		r, body := rawHTTP2(t, s, method)
		if r != 400 || !strings.Contains(body, "The method is not a token.") {
			t.Errorf("%q in HTTP/2: got %d %s, want 400", method, r, body)
		}
	}
	if n := judged.Load() - before; n != 0 {
		t.Errorf("%d requests with other methods were judged", n)
	}
}

// rawHTTP2 sends a request that no client would, and returns the status and the body.
func rawHTTP2(t *testing.T, s *httptest.Server, method string) (status int, body string) {
	t.Helper()
	conn := dial(t, s)
	io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	framer.WriteSettings()
	framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1, EndStream: true, EndHeaders: true,
		BlockFragment: testkit.HTTP2Header(":method", method, ":scheme", "http", ":authority", "x", ":path", "/"),
	})
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame := testkit.Must(framer.ReadFrame())(t)
		switch f := frame.(type) {
		case *http2.DataFrame:
			body += string(f.Data())
			if f.StreamEnded() {
				return status, body
			}
		case *http2.MetaHeadersFrame:
			status, _ = strconv.Atoi(f.PseudoValue("status"))
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return 0, "reset"
		}
	}
}

// A host that applications read in different ways is refused before it is charged or passed on.
func TestF47Hosts(t *testing.T) {
	var reached atomic.Int32
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) { reached.Add(1); echo(w, r) })
	g := front(t, "tiers: [{name: all, identity: ip, limits: 1000000/1m}]\n", u.URL)
	for _, test := range []struct {
		head string
		want int
	}{
		{"GET / HTTP/1.1\r\nHost: admin.example.com", 200},
		{"GET / HTTP/1.1\r\nHost: my_app-1.Example.com.:8080", 200},
		{"GET http://x/ HTTP/1.1\r\nHost: y", 200},
		{"GET / HTTP/1.0\r\nX-Other: z", 400},
		{"GET / HTTP/1.1\r\nHost: admin.example.com,x", 400},
		{"GET / HTTP/1.1\r\nHost: u@admin.example.com", 400},
		{"GET / HTTP/1.1\r\nHost: admin.example.com/x", 400},
		{"GET / HTTP/1.1\r\nHost: \xc3\xa4dmin.example.com", 400},
		{"GET / HTTP/1.1\r\nHost:", 400},
		{"GET http:///x/login HTTP/1.1\r\nHost: admin.example.com", 200}, // passed on in origin form
		{"GET http:///x/login HTTP/1.1\r\nHost: admin.example.com,x", 400},
		{"GET http://a\"b/ HTTP/1.1\r\nHost: x", 400},
	} {
		before := reached.Load()
		got := ask(t, g, test.head)
		status := got[min(len(got), 9):]
		if !strings.HasPrefix(status, strconv.Itoa(test.want)) || (reached.Load() > before) != (test.want == 200) {
			t.Errorf("%q: got %s, want %d", test.head, got, test.want)
		}
	}
}
