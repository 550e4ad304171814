package server

import (
	"context"
	"net/http"
	"path"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/server/api"
	"github.com/stint-limiter/stint/server/gateway"
)

// newHTTP returns what is served to everybody: the API, or the gateway.
func (s *Server) newHTTP() (served, error) {
	if s.c.Gateway != nil {
		return s.newGateway()
	}
	a, err := api.New(s.guard, s.store, api.Config{
		// Tokens and certificates are looked at before.
		Public:   s.c.API.Public || s.callers != nil || s.c.TLS.ClientCA != "",
		Key:      s.chargeKey,
		AdHoc:    s.c.API.AdHoc,
		Observer: s.monitor,
		Logger:   s.c.Logger,
	})
	if err != nil {
		return served{}, err
	}
	mux := http.NewServeMux()
	s.vitals.register(mux)
	mux.HandleFunc("GET /healthcheck", s.vitals.healthcheck)
	mux.Handle("/auth", a.Auth())
	mux.Handle("GET /openapi.json", a.Handler())
	mux.Handle("/", s.callers.guard(a.Handler()))
	if s.envoy != nil {
		mux.Handle("/json", s.proxies.guard(s.envoy.JSONHandler()))
	}
	return s.newHTTPServer(asWritten(mux), false), nil
}

// asWritten has a path mean what it says: a mux would send clients with /v1//take to /v1/take, which is no way to treat
// what was posted.
func asWritten(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if clean := path.Clean(r.URL.Path); r.URL.Path == clean || r.URL.Path == clean+"/" && clean != "/" {
			mux.ServeHTTP(w, r)
			return
		}
		nothingHere(w, r)
	})
}

// nothingHere answers where there is nothing.
func nothingHere(w http.ResponseWriter, _ *http.Request) {
	answer.Refuse(w, http.StatusNotFound, "not_found", "There is nothing here.")
}

// newGateway returns the gateway. It has no paths of its own: all of them are its upstreams'.
func (s *Server) newGateway() (served, error) {
	c := *s.c.Gateway
	if c.Logger == nil {
		c.Logger = s.c.Logger
	}
	if len(c.Routes) > 0 && len(s.set.Gateway().Routes) > 0 {
		c.Logger.Warn("server: flags say where the gateway passes requests on to, and gateway.routes of the configuration are not used")
	}
	g, err := gateway.New(s.guard, c)
	if err != nil {
		return served{}, err
	}
	s.undo.push("the gateway", func(context.Context) error { return g.Close() })
	return s.newHTTPServer(g, true), nil
}
