package httplimit_test

import (
	"io"
	"net/http"
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
			tr := &http.Transport{Protocols: new(http.Protocols)}
			tr.Protocols.SetHTTP1(!test.http2)
			tr.Protocols.SetUnencryptedHTTP2(test.http2)
			defer tr.CloseIdleConnections()
			get := func(path string) *http.Response {
				r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := tr.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				return resp
			}
			stalled := get("/endless")
			defer stalled.Body.Close()
			testkit.Eventually(t, "a free place", func() bool {
				resp := get("/other")
				resp.Body.Close()
				return resp.StatusCode == 200
			})
			if n, err := io.Copy(io.Discard, stalled.Body); err == nil {
				t.Errorf("the response ended after %d bytes, want it cut off", n)
			}
		})
	}
}
