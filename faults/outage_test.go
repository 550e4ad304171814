package faults

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/stores"
)

// openDefault opens a store as the README does.
func openDefault(t *testing.T, url string) stores.Store {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	s, err := stores.Config{Resilience: resilience.Config{Logger: quiet}}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Responses are ready when their handlers are: what remains to be told to Redis is not on their
// way.
func TestF51(t *testing.T) {
	fault(t, "F51", "Redis falls silent while requests are served that settle, refund or hold a place",
		"no response waits for longer than a few time budgets", func(r *report) {
			for name, text := range map[string]string{
				"settle": "tiers: [{name: all, identity: ip, limits: 1000/1m, budget: 100000/1m}]\n" +
					"policies: [{name: p, settle: {header: X-True-Cost}}]",
				"refund and place": "tiers: [{name: all, identity: ip, limits: [1000/1m, 100/30s concurrency]}]\n" +
					"policies: [{name: p, refund: 5xx}]",
			} {
				r.saw("%s: slowest %s more than the handler", name, short(slowest(t, name == "refund and place", text)))
			}
		})
}

// slowest is how much longer than its handler the slowest of some responses took.
func slowest(t *testing.T, fails bool, text string) time.Duration {
	server := redistest.Start(t)
	conf, err := config.Parse("stint.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	guard, err := policy.NewGuard(openDefault(t, server.URL()), conf.Set, policy.GuardConfig{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	const callers = 20
	var serving, silent sync.WaitGroup
	serving.Add(callers)
	silent.Add(1)
	var mu sync.Mutex
	var ended []time.Time
	handler := httplimit.New(guard)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		serving.Done()
		silent.Wait()
		w.Header().Set("X-True-Cost", "7")
		if fails {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, "hello")
	}))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		handler.ServeHTTP(w, request)
		mu.Lock()
		defer mu.Unlock()
		ended = append(ended, time.Now())
	}))
	defer web.Close()
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			response, err := http.Get(web.URL)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		})
	}
	serving.Wait()
	server.Pause(t)
	begin := time.Now()
	silent.Done()
	group.Wait() // Redis is silent until the last response has ended
	server.Resume(t)
	worst := slices.MaxFunc(ended, time.Time.Compare).Sub(begin)
	if worst > pick(time.Second, time.Minute) {
		t.Errorf("a response was ready %v after its handler", worst)
	}
	return worst
}
