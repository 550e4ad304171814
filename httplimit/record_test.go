package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/testkit"
)

// settling is a configuration with a budget that is settled by a header under /header, by length
// under /bytes, and given back after a 5xx or a 404 under either and under /refund.
const settling = `
tiers: [{name: free, identity: everyone, budget: 100/1h}]
policies:
  - {name: header, match: {path: /header/**}, cost: 5, settle: {header: X-Cost}, refund: [5xx, 404]}
  - {name: bytes, match: {path: /bytes/**}, cost: 5, settle: {bytes: 1KiB}, refund: 5xx}
  - {name: refund, match: {path: /refund/**}, refund: 5xx}
`

// used returns what a budget under settling has been charged.
func used(t *testing.T, store stint.Store) int64 {
	t.Helper()
	limit := testkit.Must(stint.ParseLimit("cost: 100/1h"))(t)
	d, err := store.Take(t.Context(), stint.Request{
		Claims: []stint.Claim{
			{Subject: "everyone", Scope: "global", Limits: []stint.Limit{limit}},
		}, Mode: stint.ModePeek,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d.Usages()[0].Used
}

func TestSettling(t *testing.T) {
	for _, c := range []struct {
		what, method, path, before, after string // header fields before and after the body
		body                              int    // its bytes
		status                            int    // 0 is not written
		want                              int64  // charged
	}{
		{"not followed", "GET", "/", "", "", 2, 0, 1},
		{"header", "GET", "/header/a", "X-Cost: 17", "", 2, 0, 17},
		{"header, no body", "GET", "/header/a", "X-Cost: 2", "", 0, 0, 2},
		{"header after the body", "GET", "/header/a", "", "X-Cost: 3", 2, 0, 3},
		{"trailer", "GET", "/header/a", "", http.TrailerPrefix + "X-Cost: 4", 2, 0, 4},
		{"early hints", "GET", "/header/a", "X-Cost: 6", "", 0, http.StatusEarlyHints, 6},
		{"no header", "GET", "/header/a", "", "", 2, 0, 5},
		{"header that is no number", "GET", "/header/a", "X-Cost: -1", "", 0, 0, 5},
		{"refunded", "GET", "/header/a", "", "", 0, http.StatusNotFound, 0},
		{"refunded 5xx", "GET", "/refund/a", "", "", 2, http.StatusServiceUnavailable, 0},
		{"4xx costs", "GET", "/refund/a", "", "", 2, http.StatusBadRequest, 1},
		{"bytes", "GET", "/bytes/a", "", "", 2049, 0, 3},
		{"bytes, in parts", "GET", "/bytes/a", "", "", 10_000, 0, 10},
		{"bytes of nothing", "GET", "/bytes/a", "", "", 0, 0, 0},
		{"bytes of HEAD", "HEAD", "/bytes/a", "", "", 2049, 0, 0},
		{"bytes read from", "GET", "/bytes/copy", "", "", 4000, 0, 4},
	} {
		t.Run(c.what, func(t *testing.T) {
			store := memory(t)
			h := httplimit.New(guardOver(t, store, settling))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if name, value, ok := strings.Cut(c.before, ": "); ok {
					w.Header().Set(name, value)
				}
				if c.status != 0 {
					w.WriteHeader(c.status)
				}
				if c.path == "/bytes/copy" {
					io.Copy(w, strings.NewReader(strings.Repeat("x", c.body)))
				} else {
					for piece := range slices.Chunk(make([]byte, c.body), 2500) {
						w.Write(piece)
					}
				}
				if name, value, ok := strings.Cut(c.after, ": "); ok {
					w.Header().Set(name, value)
				}
			}))
			server := httptest.NewServer(h)
			t.Cleanup(server.Close)
			resp, _ := fetch(t, http.DefaultTransport, outgoing(t, c.method, server.URL+c.path, nil))
			if want := max(c.status, http.StatusOK); resp.StatusCode != want {
				t.Errorf("got %d, want %d", resp.StatusCode, want)
			}
			if resp.Header.Get("X-Cost") != "" || resp.Trailer.Get("X-Cost") != "" {
				t.Errorf("the cost was sent: %v, %v", resp.Header, resp.Trailer)
			}
			if got := used(t, store); got != c.want {
				t.Errorf("charged %d, want %d", got, c.want)
			}
		})
	}
}

// A request has its place under a concurrency limit until it has been served, also if it panics.
func TestPlacesAreGivenBack(t *testing.T) {
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"New": httplimit.New(guardOf(t, "tiers: [{name: free, identity: everyone, limits: 1/10s concurrency}]")),
		"By":  httplimit.By(httplimit.Everyone(), stint.Concurrency(1, stint.MinWindow*10_000)),
		"WithLimits": httplimit.By(httplimit.Everyone(), httplimit.WithLimits(func(*http.Request) []stint.Limit {
			return []stint.Limit{stint.Concurrency(1, time.Minute)}
		})),
	} {
		var h http.Handler
		h = wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/nested":
				if got := ask(h, "/").Code; got != http.StatusTooManyRequests {
					t.Errorf("%s: a second one at once: got %d, want 429", name, got)
				}
			case "/panic":
				panic(http.ErrAbortHandler)
			}
		}))
		for _, path := range []string{"/nested", "/panic", "/nested"} {
			func() {
				defer func() { recover() }()
				if got := ask(h, path).Code; got != http.StatusOK {
					t.Errorf("%s: %s: got %d, want 200", name, path, got)
				}
			}()
		}
	}
}

// reading is a connection's writer that remembers what it was given to read from.
type reading struct {
	http.ResponseWriter
	from io.Reader
}

func (r *reading) ReadFrom(source io.Reader) (int64, error) {
	r.from = source
	return io.Copy(r.ResponseWriter, source)
}

// A file reaches the writer as a file, so that the system can send it by itself.
func TestFilesAreSentAsFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, make([]byte, 3000), 0o600); err != nil {
		t.Fatal(err)
	}
	store := memory(t)
	var source *os.File
	h := httplimit.New(guardOver(t, store, settling))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var err error
		if source, err = os.Open(name); err != nil {
			t.Error(err)
			return
		}
		defer source.Close()
		w.(io.ReaderFrom).ReadFrom(source)
	}))
	w := &reading{ResponseWriter: httptest.NewRecorder()}
	h.ServeHTTP(w, request("GET", "/bytes/file"))
	if part, ok := w.from.(*io.LimitedReader); !ok || part.R != io.Reader(source) {
		t.Errorf("the writer read from a %T, want a part of the file", w.from)
	}
	if got := used(t, store); got != 3 {
		t.Errorf("charged %d, want 3", got)
	}
}

// A request is settled even if the client has left.
func TestSettlesForClientsThatLeft(t *testing.T) {
	store := memory(t)
	ctx, leave := context.WithCancel(t.Context())
	h := httplimit.New(guardOver(t, store, settling))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		leave()
		w.Header().Set("X-Cost", "9")
	}))
	h.ServeHTTP(httptest.NewRecorder(), request("GET", "/header/a").WithContext(ctx))
	if got := used(t, store); got != 9 {
		t.Errorf("charged %d, want 9", got)
	}
}

// A failure is refunded if the response has not begun, unless the client caused it by hanging up. A
// client that is still there when a handler further out has run out of patience is refunded. Panics go on.
func TestRefundsOfFailures(t *testing.T) {
	type writer = http.ResponseWriter
	none := func(writer) {}
	hints := func(w writer) { w.WriteHeader(http.StatusEarlyHints) }
	fine := func(w writer) { w.WriteHeader(http.StatusOK) }
	fail := func(w writer) { w.WriteHeader(http.StatusBadGateway) }
	part := func(w writer) { io.WriteString(w, "half of it") }
	for _, test := range []struct {
		name   string
		end    error // of the context, while the request is served
		send   func(writer)
		panics any
		want   int64 // charged
	}{
		{"failed", nil, fail, nil, 0},
		{"panic, nothing was sent", nil, none, "oh", 0},
		{"panic after early hints", nil, hints, "oh", 0},
		{"panic after a status", nil, fine, "oh", 1},
		{"panic after a part of the body", nil, part, "oh", 1},
		{"panic after a failure", nil, fail, "oh", 0},
		{"hung up", context.Canceled, fail, nil, 1},
		{"hung up, panic", context.Canceled, none, http.ErrAbortHandler, 1},
		{"hung up, answered", context.Canceled, part, nil, 1},
		{"timed out", context.DeadlineExceeded, fail, nil, 0},
		{"timed out, panic", context.DeadlineExceeded, none, http.ErrAbortHandler, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := memory(t)
			ctx := &testkit.EndingContext{Context: t.Context()}
			h := httplimit.New(guardOver(t, store, settling))(http.HandlerFunc(func(w writer, _ *http.Request) {
				ctx.End = test.end
				if test.send(w); test.panics != nil {
					panic(test.panics)
				}
			}))
			defer func() {
				if got := recover(); got != test.panics {
					t.Errorf("got panic %v, want %v", got, test.panics)
				}
				if got := used(t, store); got != test.want {
					t.Errorf("charged %d, want %d", got, test.want)
				}
			}()
			h.ServeHTTP(httptest.NewRecorder(), request("GET", "/refund/a").WithContext(ctx))
		})
	}
}

// failingReader fails before its first byte.
type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("the upstream is gone") }

// A source that fails at once leaves the status to the handler.
func TestReadingFromNothingBeginsNothing(t *testing.T) {
	store := memory(t)
	server := httptest.NewServer(httplimit.New(guardOver(t, store, settling))(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if _, err := w.(io.ReaderFrom).ReadFrom(failingReader{}); err != nil {
				http.Error(w, "bad", http.StatusBadGateway)
			}
		})))
	t.Cleanup(server.Close)
	resp, _ := fetch(t, http.DefaultTransport, outgoing(t, http.MethodGet, server.URL+"/refund/a", nil))
	if got := used(t, store); resp.StatusCode != http.StatusBadGateway || got != 0 {
		t.Errorf("got %d, charged %d; want 502, and nothing", resp.StatusCode, got)
	}
}
