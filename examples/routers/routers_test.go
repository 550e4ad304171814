package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stint-limiter/stint/memorystore"
)

// TestRouters makes the same requests to every router, of a budget of 20. What is given back, for a
// panic, a failure and a job that was cheaper than thought, is seen in what remains.
func TestRouters(t *testing.T) {
	steps := []struct {
		kind      string
		status    int // 0: no answer, for the handler panics
		remaining string
		runs      int64
	}{
		{"panic", 0, "", 1},
		{"broken", 500, "10", 2},
		{"small", 201, "10", 3}, // 10, of which 4 stay
		{"small", 201, "6", 4},  // 4 + 10
		{"small", 201, "2", 5},  // 8 + 10
		{"small", 429, "8", 5},  // 12 + 10
	}
	for name, router := range routers() {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int64
			url := serve(t, router, func(kind string) (string, error) {
				if runs.Add(1); kind == "panic" {
					panic(http.ErrAbortHandler)
				}
				return work(kind)
			})
			for i, s := range steps {
				status, header, body := post(t, url+"/jobs/"+s.kind)
				if ran := runs.Load(); status != s.status || ran != s.runs {
					t.Errorf("step %d: status %d after %d runs of the handler, want %d after %d", i, status, ran, s.status, s.runs)
				}
				if got := header.Get("X-RateLimit-Remaining"); got != s.remaining {
					t.Errorf("step %d: %q remaining, want %q", i, got, s.remaining)
				}
				if got := header.Get(costHeader); got != "" {
					t.Errorf("step %d: the client is told the true cost, %s", i, got)
				}
				if s.status == 429 {
					checkDenial(t, header, body)
				}
			}
		})
	}
}

// TestGinStreams is for gin's streams, which panic unless they can be told of a closed connection.
func TestGinStreams(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	stream := func(c *gin.Context) {
		parts := 0
		c.Stream(func(w io.Writer) bool {
			parts++
			_, err := io.WriteString(w, "part\n")
			return err == nil && parts < 3
		})
	}
	for name, router := range map[string]func(middleware, job) http.Handler{
		"around": func(limit middleware, _ job) http.Handler {
			e := gin.New()
			e.POST("/jobs/:kind", stream)
			return limit(e)
		},
		"within": func(limit middleware, _ job) http.Handler {
			e := gin.New()
			e.Use(wrapGin(limit))
			e.POST("/jobs/:kind", stream)
			return e
		},
	} {
		status, _, body := post(t, serve(t, router, work)+"/jobs/small")
		if want := "part\npart\npart\n"; status != http.StatusOK || string(body) != want {
			t.Errorf("%s: got %d, %q; want 200, %q", name, status, body, want)
		}
	}
}

func serve(t *testing.T, router func(middleware, job) http.Handler, work job) (url string) {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	limit, err := newLimit(store)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(router(limit, work))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(func() {
		server.Close()
		_ = store.Close()
	})
	return server.URL
}

// post makes a request. The status is 0 if there is no answer.
func post(t *testing.T, url string) (status int, h http.Header, body []byte) {
	t.Helper()
	answer, err := http.Post(url, "", nil)
	if err != nil {
		return 0, nil, nil
	}
	defer answer.Body.Close()
	if body, err = io.ReadAll(answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, body
}

func checkDenial(t *testing.T, h http.Header, body []byte) {
	t.Helper()
	var got struct {
		Error, Policy string
		RetryAfter    int64 `json:"retry_after_seconds"`
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	if got.Error != "rate_limited" || got.Policy != "jobs" || got.RetryAfter < 1 || h.Get("Retry-After") == "" {
		t.Errorf("the denial is %s with Retry-After %q; want rate_limited by jobs, and when to come back", body, h.Get("Retry-After"))
	}
}
