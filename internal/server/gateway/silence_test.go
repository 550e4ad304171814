package gateway_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/config"
)

// brief is how long bodies may be silent in tests.
const brief = 50 * time.Millisecond

// A client that falls silent gets an answer, and does not keep its connection, whatever becomes of
// its request (F31).
func TestF31SilentBody(t *testing.T) {
	const text = "tiers: [{name: all, identity: ip, limits: 1000000/1m}]\npolicies: [{name: closed, match: {path: /denied}, limits: 1/1h}]\n"
	u := upstream(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	early := rawUpstream(t, func(conn net.Conn, r *bufio.Reader) {
		readHead(r)
		io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nno!\n")
		io.Copy(io.Discard, r)
	})
	c := to(u.URL)
	c.Routes = append(c.Routes, config.Route{PathPrefix: "/early", Upstream: early}, downRoute(t))
	c.BodyTimeout = 40 * brief // on a busy machine it takes some time to answer early
	g := serve(t, newGateway(t, text, c))
	do(t, "GET", g.URL+"/denied", nil)
	for _, test := range []struct {
		name, path string
		want       int
	}{
		{"passed on", "/", 408},
		{"answered early", "/early", 403},
		{"no upstream", "/down", 502},
		{"denied", "/denied", 429},
		{"refused", "/a/../b", 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, g)
			io.WriteString(conn, "POST "+test.path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nbeginning")
			r := bufio.NewReader(conn)
			resp := response(t, r)
			body, _ := io.ReadAll(resp.Body)
			if test.want == http.StatusRequestTimeout {
				wantProblem(t, resp, string(body), test.want, "request_timeout")
			}
			if resp.StatusCode != test.want || !resp.Close {
				t.Errorf("got %d %s, close %v, want %d", resp.StatusCode, body, resp.Close, test.want)
			}
			if _, err := r.ReadByte(); err == nil || isSlow(err) {
				t.Errorf("the connection is still open: %v", err)
			}
		})
	}
}

func isSlow(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// A client that leaves in the middle of its body has not sent a malformed one.
func TestClientLeavesItsBody(t *testing.T) {
	for name, test := range map[string]struct{ framing, status string }{
		"length":    {"Content-Length: 100\r\n\r\nhalf", "499"},
		"chunked":   {"Transfer-Encoding: chunked\r\n\r\n64\r\nhalf", "499"},
		"malformed": {"Transfer-Encoding: chunked\r\n\r\n64\r\n" + strings.Repeat("x", 0x64) + "\r\nno length\r\n", "400"},
	} {
		u := upstream(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
		c, log := logged(u.URL)
		conn := dial(t, serve(t, newGateway(t, open, c)))
		io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\n"+test.framing)
		if test.status == "499" {
			conn.Close()
		}
		log.Await(t, "\n")
		if line := log.String(); field(line, "status") != test.status || !strings.Contains(line, "level=INFO") {
			t.Errorf("%s: got %s, want the status %s", name, line, test.status)
		}
	}
}
