package gateway_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/stint-limiter/stint/internal/testkit"
)

// soon is how long clients may take nothing in tests.
const soon = 300 * time.Millisecond

// onePlace has a single place, which lasts for longer than any test.
const onePlace = `
tiers: [{name: all, identity: ip, limits: 1000000/1m}]
policies: [{name: place, match: {path: /place/**}, limits: 1/1h concurrency}]
gateway: {send_timeout: 300ms, body_timeout: 300ms}
`

// endless sends until a write fails.
func endless(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/endless") {
		return
	}
	piece := make([]byte, 32<<10)
	for {
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
}

// wantPlace waits until the place is free.
func wantPlace(t *testing.T, url string) {
	t.Helper()
	testkit.Eventually(t, "a free place", func() bool {
		resp, _ := do(t, "GET", url+"/place/other", nil)
		return resp.StatusCode == 200
	})
}

// h2c is a client that speaks HTTP/2 without TLS.
func h2c(t *testing.T) *http.Transport {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// A client that takes nothing of its response has its place for some time, and not for ever (F48).
func TestF48StalledReader(t *testing.T) {
	u := upstream(t, endless)
	for name, stallOn := range map[string]func(*testing.T, *httptest.Server){
		"HTTP/1": func(t *testing.T, s *httptest.Server) {
			io.WriteString(dial(t, s), "GET /place/endless HTTP/1.1\r\nHost: x\r\n\r\n")
		},
		// The connection goes on, the stream does not.
		"HTTP/2": func(t *testing.T, s *httptest.Server) {
			send(t, h2c(t), request(t, "GET", s.URL+"/place/endless", nil))
		},
		// Windows are open, and nothing is read from the connection.
		"HTTP/2, whole connection": func(t *testing.T, s *httptest.Server) {
			conn := dial(t, s)
			io.WriteString(conn, http2.ClientPreface)
			framer := http2.NewFramer(conn, nil)
			framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
			framer.WriteWindowUpdate(0, 1<<30)
			framer.WriteHeaders(http2.HeadersFrameParam{
				StreamID: 1, EndStream: true, EndHeaders: true,
				BlockFragment: testkit.HTTP2Header(":method", "GET", ":scheme", "http", ":authority", "x", ":path", "/place/endless"),
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, log := logged(u.URL)
			s := testkit.ServeHTTP2(t, newGateway(t, onePlace, c), func(s *http.Server) {
				s.HTTP2 = &http.HTTP2Config{WriteByteTimeout: soon}
			})
			testkit.Eventually(t, "the place is taken", func() bool {
				stallOn(t, s) // again if the other request had the place when it came
				resp, _ := do(t, "GET", s.URL+"/place/other", nil)
				return resp.StatusCode == 429
			})
			wantPlace(t, s.URL)
			log.Await(t, "read nothing of the response")
		})
	}
}

// A websocket has its place under a concurrency limit for as long as it is open. One whose client
// takes nothing is closed; one that is idle is not.
func TestF48Websockets(t *testing.T) {
	t.Parallel()
	flood := rawUpstream(t, func(conn net.Conn, r *bufio.Reader) {
		head := readHead(r)
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if strings.Contains(head, "/endless") {
			endless(socketWriter{conn}, httptest.NewRequest("GET", "/endless", nil))
			return
		}
		io.Copy(conn, r)
	})
	g := front(t, onePlace, flood)
	_, _, resp := openSocket(t, g, "/place/endless")
	if resp.StatusCode != 101 {
		t.Fatalf("got %d", resp.StatusCode)
	}
	var conn net.Conn
	var r *bufio.Reader
	testkit.Eventually(t, "a free place", func() bool {
		conn, r, resp = openSocket(t, g, "/place/idle")
		return resp.StatusCode == 101
	})
	time.Sleep(2 * soon)
	io.WriteString(conn, "hello\n")
	if got, err := r.ReadString('\n'); err != nil || got != "hello\n" {
		t.Errorf("after a pause: got %q, %v", got, err)
	}
	if _, _, resp := openSocket(t, g, "/place/idle"); resp.StatusCode != 429 ||
		resp.Header.Get("X-RateLimit-Policy") != "place" {
		t.Errorf("beside an open one: got %d %v, want 429", resp.StatusCode, resp.Header)
	}
	conn.Close()
	testkit.Eventually(t, "the place of a closed one", func() bool {
		conn, _, resp := openSocket(t, g, "/place/idle")
		conn.Close()
		return resp.StatusCode == 101
	})
}

// socketWriter is a connection as a ResponseWriter.
type socketWriter struct{ net.Conn }

func (socketWriter) Header() http.Header { return http.Header{} }
func (socketWriter) WriteHeader(int)     {}

// A body that comes byte by byte is refused, however short the pauses are, and gives up its place;
// one above the least rate may take any time. So may an upstream, to read it and to answer.
func TestF48SlowBodies(t *testing.T) {
	t.Parallel()
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		pause := time.Duration(0)
		if r.URL.Path == "/steady" {
			pause = 2 * soon
		}
		time.Sleep(pause)
		n, _ := io.Copy(io.Discard, r.Body)
		time.Sleep(pause)
		fmt.Fprint(w, n)
	})
	g := testkit.ServeHTTP2(t, newGateway(t, onePlace, to(u.URL)))
	for name, tr := range map[string]*http.Transport{"HTTP/1": {DisableKeepAlives: true}, "HTTP/2": h2c(t)} {
		send := func(t *testing.T, path, piece string, pause, lasts time.Duration) (*http.Response, string) {
			t.Helper()
			in, out := io.Pipe()
			go func() {
				for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(pause) {
					if _, err := io.WriteString(out, piece); err != nil {
						return
					}
				}
				out.Close()
			}()
			resp := send(t, tr, request(t, "POST", g.URL+path, in))
			return resp, read(t, resp)
		}
		resp, body := send(t, "/place/slow", "x", soon/3, patience)
		wantProblem(t, resp, body, 408, "request_timeout")
		wantPlace(t, g.URL)
		for range tries { // a busy machine does not let a sender be steady every time
			if resp, body = send(t, "/steady", strings.Repeat("x", 500), soon/10, 4*soon); resp.StatusCode == 200 {
				break
			}
		}
		if resp.StatusCode != 200 {
			t.Errorf("%s: a steady body: got %d %s", name, resp.StatusCode, body)
		}
	}
}

// tries is how often a sender tries to be steady. A gateway that wants more than it should refuses
// every time.
const tries = 20

// A call of gRPC may be silent between its messages, and not in the middle of one.
func TestF48SilenceBetweenMessages(t *testing.T) {
	u := testkit.ServeHTTP2(t, newGateway(t, open, to(upstream(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}).URL)))
	message := func(n int) string {
		return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(n))) + strings.Repeat("x", n)
	}
	for _, test := range []struct {
		name, media, scheme string
		pieces              []string // with silence between them
		want                int
	}{
		{"between", "application/grpc", "h2c", []string{"", message(3), message(0) + message(70_000)}, 200},
		{"in a message", "application/grpc", "h2c", []string{message(3) + message(4)[:7], "xx"}, 408},
		{"in a head", "application/grpc", "h2c", []string{message(3)[:2], message(3)[2:]}, 408},
		{"no upstream of gRPC", "application/grpc", "http", []string{message(3), message(4)}, 408},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := testkit.ServeHTTP2(t, newGateway(t, onePlace, to(test.scheme+"://"+u.Listener.Addr().String())))
			in, out := io.Pipe()
			go func() {
				defer out.Close()
				for i, piece := range test.pieces {
					if i > 0 {
						time.Sleep(2 * soon)
					}
					if _, err := io.WriteString(out, piece); err != nil {
						return
					}
				}
			}()
			r := request(t, "POST", g.URL, in)
			r.Header.Set("Content-Type", test.media)
			resp := send(t, h2c(t), r)
			if body, _ := io.ReadAll(resp.Body); resp.StatusCode != test.want {
				t.Errorf("got %d %s, want %d", resp.StatusCode, body, test.want)
			}
		})
	}
}

// Sending after the handler has returned is bounded too: here many small responses that the client
// does not read.
func TestF48PipelinedResponses(t *testing.T) {
	t.Parallel()
	u := upstream(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	s := httptest.NewUnstartedServer(newGateway(t, onePlace, to(u.URL)))
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		c.(*net.TCPConn).SetWriteBuffer(1 << 10)
		return ctx
	}
	s.Start()
	t.Cleanup(s.Close)
	conn := dial(t, s)
	conn.(*net.TCPConn).SetReadBuffer(1 << 10)
	var err error
	for err == nil {
		_, err = io.WriteString(conn, strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 100))
	}
	if isSlow(err) {
		t.Errorf("the connection is still open: %v", err)
	}
}

// A stream of events without any for a while goes on.
func TestF48HonestReaders(t *testing.T) {
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			http.NewResponseController(w).Flush()
			time.Sleep(3 * soon)
		}
	})
	g := testkit.ServeHTTP2(t, newGateway(t, open+"gateway: {send_timeout: 300ms}\n", to(u.URL)))
	for name, tr := range map[string]*http.Transport{"HTTP/1": {DisableKeepAlives: true}, "HTTP/2": h2c(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := read(t, send(t, tr, request(t, "GET", g.URL, nil))); strings.Count(got, "data: ") != 3 {
				t.Errorf("got %q", got)
			}
		})
	}
}
