package httplimit_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/testkit"
)

// onePlace has a single place, which lasts for longer than any test.
const onePlace = "tiers: [{name: all, identity: ip, limits: 1/1h concurrency}]\n"

// opaque is a writer without deadlines, as many wrappers are.
type opaque struct{ w http.ResponseWriter }

func (o opaque) Header() http.Header         { return o.w.Header() }
func (o opaque) WriteHeader(status int)      { o.w.WriteHeader(status) }
func (o opaque) Write(p []byte) (int, error) { return o.w.Write(p) }

// A client that takes nothing of its response loses its place after some time, with every protocol,
// and behind every writer (F48).
func TestF48StalledReader(t *testing.T) {
	for name, test := range map[string]struct {
		http2  bool
		behind func(http.Handler) http.Handler
	}{
		"HTTP/1": {},
		"HTTP/2": {http2: true},
		"no deadlines": {behind: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(opaque{w}, r) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := httplimit.New(guardOf(t, onePlace), httplimit.WithSendTimeout(200*time.Millisecond))(
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					for piece := make([]byte, 1<<20); r.URL.Path == "/endless"; {
						if _, err := w.Write(piece); err != nil {
							return
						}
					}
				}))
			if test.behind != nil {
				h = test.behind(h)
			}
			s := testkit.ServeHTTP2(t, h)
			tr := transportOf(t, test.http2)
			stalled := testkit.Must(tr.RoundTrip(outgoing(t, "GET", s.URL+"/endless", nil)))(t)
			defer stalled.Body.Close()
			testkit.Eventually(t, "a free place", func() bool {
				resp, _ := fetch(t, tr, outgoing(t, "GET", s.URL+"/other", nil))
				return resp.StatusCode == 200
			})
			if n, err := io.Copy(io.Discard, stalled.Body); err == nil {
				t.Errorf("the response ended after %d bytes, want it cut off", n)
			}
		})
	}
}

// A large response passes that is taken slowly and steadily, however it is written, and so does one
// that has nothing to send for a while.
func TestF48HonestReaders(t *testing.T) {
	const large, timeout = 24 << 20, time.Second
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, large), 0o600); err != nil {
		t.Fatal(err)
	}
	note := func(n int64, err error) {
		if err != nil || n != large {
			t.Errorf("%d bytes were written: %v", n, err)
		}
	}
	const text = "tiers: [{name: all, identity: ip, limits: 9/1h concurrency}]\n"
	h := httplimit.New(guardOf(t, text), httplimit.WithSendTimeout(timeout))(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/write":
				n, err := w.Write(make([]byte, large))
				note(int64(n), err)
			case "/copy":
				note(io.Copy(w, struct{ io.Reader }{bytes.NewReader(make([]byte, large))}))
			case "/file":
				http.ServeFile(w, r, file)
			case "/idle":
				in, out := net.Pipe()
				defer in.Close()
				go func() {
					for range 2 {
						io.WriteString(out, "event\n")
						time.Sleep(3 * timeout / 2)
					}
					out.Close()
				}()
				if n, err := io.Copy(w, in); n != 12 || err != nil {
					t.Errorf("idle: %d bytes were written: %v", n, err)
				}
			}
		}))
	for _, path := range []string{"/write", "/copy", "/file", "/idle"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			s := testkit.ServeHTTP2(t, h)
			resp := testkit.Must(http.Get(s.URL + path))(t)
			defer resp.Body.Close()
			want, total := int64(large), int64(0)
			if path == "/idle" {
				want = 12
			}
			for {
				n, err := io.CopyN(io.Discard, resp.Body, 256<<10)
				if total += n; err == io.EOF {
					break
				}
				if err != nil {
					t.Fatalf("after %d bytes: %v", total, err)
				}
				time.Sleep(20 * time.Millisecond) // 2 s in all
			}
			if resp.StatusCode != 200 || total != want {
				t.Errorf("got %d with %d bytes, want %d", resp.StatusCode, total, want)
			}
		})
	}
}
