package main

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gorilla/mux"
	"github.com/labstack/echo/v4"
)

// middleware is what [httplimit.New] returns, and what most routers take.
type middleware = func(http.Handler) http.Handler

// job does the work that a request asks for.
type job func(kind string) (cost string, err error)

// routers returns the same service, POST /jobs/{kind}, in each of them.
func routers() map[string]func(middleware, job) http.Handler {
	return map[string]func(middleware, job) http.Handler{
		"net/http": newMux, "chi": newChi, "gorilla": newGorilla, "echo": newEcho, "gin": newGin,
	}
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
	m.Use(limit) // for what matches a route: others are answered with 404 unlimited
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

// answerErrors answers the errors of echo's handlers inside the limits. Otherwise echo does it
// outside, where a 5xx is seen too late to be refunded.
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
	e.Use(wrapGin(limit))
	e.POST("/jobs/:kind", func(c *gin.Context) {
		cost, err := work(c.Param("kind"))
		if err != nil {
			c.Status(http.StatusInternalServerError)
			return
		}
		c.Header(costHeader, cost)
		c.Status(http.StatusCreated)
	})
	return e
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
