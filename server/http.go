package server

import (
	"context"
	"net/http"

	"github.com/stint-limiter/stint/server/api"
	"github.com/stint-limiter/stint/server/gateway"
)

// newHTTP returns what is served to everybody: the API, or the gateway.
func (s *Server) newHTTP() (served, error) {
	if s.c.Gateway != nil {
		return s.newGateway()
	}
	a, err := api.New(s.guard, s.store, api.Config{
		// Tokens are looked at before, for they may change.
		Public: s.c.API.Public || s.callers != nil || s.c.TLS.ClientCA != "",
		Key:    s.chargeKey,
		AdHoc:  s.c.API.AdHoc,
		Logger: s.c.Logger,
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
	return s.newHTTPServer(mux, false), nil
}

// newGateway returns the gateway. It has no paths of its own: all of them are its upstreams'.
func (s *Server) newGateway() (served, error) {
	c := *s.c.Gateway
	if c.Logger == nil {
		c.Logger = s.c.Logger
	}
	g, err := gateway.New(s.guard, c)
	if err != nil {
		return served{}, err
	}
	s.undo.push("the gateway", func(context.Context) error { return g.Close() })
	return s.newHTTPServer(g, true), nil
}
