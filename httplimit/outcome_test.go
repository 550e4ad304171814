package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stint-limiter/stint/httplimit"
)

// What a handler that panics has sent stands; before that it is a 500. Its panic goes on.
func TestPanicsGoOn(t *testing.T) {
	for _, test := range []struct {
		name string
		send func(http.ResponseWriter)
		want int64 // charged
	}{
		{"nothing was sent", func(http.ResponseWriter) {}, 0},
		{"early hints", func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, 0},
		{"a status", func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }, 1},
		{"a part of the body", func(w http.ResponseWriter) { io.WriteString(w, "half of it") }, 1},
		{"a failure", func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := memory(t)
			h := httplimit.New(guardOver(t, store, settling))(
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					test.send(w)
					panic("oh")
				}))
			defer func() {
				if got := recover(); got != "oh" {
					t.Errorf("got panic %v, want oh", got)
				}
				if got := used(t, store); got != test.want {
					t.Errorf("charged %d, want %d", got, test.want)
				}
			}()
			ask(h, "/refund/a")
		})
	}
}

// A client that hangs up is not refunded for the failure that it caused. One that is still there
// when a handler further out has run out of patience is.
func TestNoRefundForHangingUp(t *testing.T) {
	fail := func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }
	abort := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	for _, test := range []struct {
		name   string
		end    error // of the context, while the request is served
		handle func(http.ResponseWriter)
		want   int64 // charged
	}{
		{"failed", nil, fail, 0},
		{"hung up", context.Canceled, fail, 1},
		{"hung up, panic", context.Canceled, abort, 1},
		{"hung up, answered", context.Canceled, func(w http.ResponseWriter) { io.WriteString(w, "ok") }, 1},
		{"timed out", context.DeadlineExceeded, fail, 0},
		{"timed out, panic", context.DeadlineExceeded, abort, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer func() { recover() }()
			store := memory(t)
			ctx := &endingContext{Context: t.Context()}
			h := httplimit.New(guardOver(t, store, settling))(
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					ctx.end = test.end
					test.handle(w)
				}))
			defer func() {
				if got := used(t, store); got != test.want {
					t.Errorf("charged %d, want %d", got, test.want)
				}
			}()
			h.ServeHTTP(httptest.NewRecorder(), request("GET", "/refund/a").WithContext(ctx))
		})
	}
}

// endingContext is a context that ends when a test says so.
type endingContext struct {
	context.Context
	end error
}

func (c *endingContext) Err() error { return c.end }

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
	resp := fetch(t, http.MethodGet, server.URL+"/refund/a")
	if got := used(t, store); resp.StatusCode != http.StatusBadGateway || got != 0 {
		t.Errorf("got %d, charged %d; want 502, and nothing", resp.StatusCode, got)
	}
}
