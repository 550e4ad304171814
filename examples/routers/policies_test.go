// Package routers has a command for each router, and no code: its tests have policies that settle
// costs and refund in all of them.
package routers

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gorilla/mux"
	"github.com/labstack/echo/v4"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/policy"
)

// rules say that a job costs 10 until it is known what it has really cost, and nothing if it fails.
const rules = `
tiers: [{name: everyone, identity: ip, limits: 100/1m}]
policies:
  - name: jobs
    match: {method: POST, path: "/jobs/{kind}"}
    cost: 10
    budget: 20/1h
    settle: {header: X-True-Cost}
    refund: 5xx
`

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
	for name, router := range routers {
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
	url := serve(t, func(limit middleware, _ job) http.Handler {
		e := gin.New()
		e.POST("/jobs/:kind", func(c *gin.Context) {
			parts := 0
			c.Stream(func(w io.Writer) bool {
				parts++
				_, err := io.WriteString(w, "part\n")
				return err == nil && parts < 3
			})
		})
		return limit(e)
	}, work)
	status, _, body := post(t, url+"/jobs/small")
	if want := "part\npart\npart\n"; status != http.StatusOK || string(body) != want {
		t.Errorf("got %d, %q; want 200, %q", status, body, want)
	}
}

func serve(t *testing.T, router func(middleware, job) http.Handler, work job) (url string) {
	t.Helper()
	guard := guardtest.New(t, guardtest.Memory(t), rules, policy.GuardConfig{})
	server := httptest.NewUnstartedServer(router(httplimit.New(guard), work))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
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

// work does a job and returns what it has really cost. Those of the kind "broken" fail.
func work(kind string) (cost string, err error) {
	if kind == "broken" {
		return "", errors.New("no machine is free")
	}
	return "4", nil
}

// middleware is what [httplimit.New] returns, and what most routers take.
type middleware = func(http.Handler) http.Handler

// job does the work that a request asks for.
type job func(kind string) (cost string, err error)

// routers have the same service, POST /jobs/{kind}.
var routers = map[string]func(middleware, job) http.Handler{
	"net/http": newMux, "chi": newChi, "gorilla": newGorilla, "echo": newEcho, "gin": newGin,
}

const costHeader = "X-True-Cost"

func newMux(limit middleware, work job) http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("POST /jobs/{kind}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, r.PathValue("kind"), work)
	})
	return limit(m)
}

func newChi(limit middleware, work job) http.Handler {
	m := chi.NewRouter()
	m.Use(limit)
	m.Post("/jobs/{kind}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, chi.URLParam(r, "kind"), work)
	})
	return m
}

func newGorilla(limit middleware, work job) http.Handler {
	m := mux.NewRouter()
	m.Use(limit)
	m.HandleFunc("/jobs/{kind}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, mux.Vars(r)["kind"], work)
	}).Methods(http.MethodPost)
	return m
}

func newEcho(limit middleware, work job) http.Handler {
	e := echo.New()
	e.Use(echo.WrapMiddleware(limit), answerErrors)
	e.POST("/jobs/:kind", func(c echo.Context) error {
		cost, err := work(c.Param("kind"))
		if err != nil {
			return err
		}
		c.Response().Header().Set(costHeader, cost)
		return c.NoContent(http.StatusCreated)
	})
	return e
}

// answerErrors is that of the example.
func answerErrors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := next(c); err != nil {
			c.Error(err)
		}
		return nil
	}
}

func newGin(limit middleware, work job) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.POST("/jobs/:kind", func(c *gin.Context) {
		cost, err := work(c.Param("kind"))
		if err != nil {
			c.Status(http.StatusInternalServerError)
			return
		}
		c.Header(costHeader, cost)
		c.Status(http.StatusCreated)
	})
	return limit(e)
}

// answer is the handler of the routers that have those of net/http.
func answer(w http.ResponseWriter, kind string, work job) {
	cost, err := work(kind)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set(costHeader, cost)
	w.WriteHeader(http.StatusCreated)
}
