package httplimit_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/eventually"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/redisstore"
)

// One process is refused; another one, that shares nothing with it but Redis, sends nothing until
// the pause is over.
func TestTransportPausesOthersThroughRedis(t *testing.T) {
	var requests, refusals atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		if refusals.Add(-1) >= 0 {
			answerWith(429, "Retry-After", "1")(w)
			return
		}
		answerFine(w)
	}))
	defer api.Close()
	redis := redistest.Start(t)
	open := func() stint.Store {
		s, err := redisstore.Open(t.Context(), redisstore.Config{URL: redis.URL()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	call := func(c *http.Client) int {
		t.Helper()
		resp, err := c.Get(api.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	fast := igdb()
	fast.FailFast = true
	a, _ := newProcess(t, open(), igdb(), nil)
	b, _ := newProcess(t, open(), igdb(), nil)
	hasty, gate := newProcess(t, open(), fast, nil)
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()

	refusals.Store(1)
	refused := time.Now()
	if got := call(a); got != 429 {
		t.Fatalf("status %d, want 429", got)
	}
	eventually.True(t, "the pause is known", func() bool {
		d, err := gate.Peek(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d.Banned
	})
	if _, err := hasty.Get(api.URL); !errors.Is(err, outbound.ErrCoolingDown) {
		t.Errorf("got %v, want that there is a pause", err)
	}
	if got := requests.Load(); got != 1 {
		t.Errorf("%d requests in the pause", got-1)
	}
	if got := call(b); got != 200 || time.Since(refused) < time.Second {
		t.Errorf("status %d %v after the refusal, want 200 after the pause", got, time.Since(refused))
	}
	if got := requests.Load(); got != 2 {
		t.Errorf("%d requests, want 2", got)
	}
}
