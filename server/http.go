package server

import (
	"cmp"
	"context"
	"net/http"
	"path"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/server/api"
	"github.com/stint-limiter/stint/internal/server/gateway"
)

func (s *Server) newHTTP() (endpoint, error) {
	if s.c.Gateway != nil {
		return s.newGateway()
	}
	// known reports whether every caller has presented a token or a certificate.
	known := s.apiTokens != nil || s.c.ClientCA != "" && !s.c.TLSOnlyGRPC
	a, err := api.New(s.guard, s.store, api.Config{
		Public:   s.c.APIPublic || known,
		Known:    known,
		AdHoc:    s.c.APIAdHoc,
		Outbound: s.apis,
		Observer: s.monitor,
		Logger:   s.c.Logger,
	})
	if err != nil {
		return endpoint{}, err
	}
	s.api = a
	mux := http.NewServeMux()
	s.health.register(mux)
	mux.HandleFunc("GET /healthcheck", s.health.healthcheck)
	mux.Handle("/auth", a.Auth())
	mux.Handle("GET /openapi.json", a.Handler())
	mux.Handle("/v1/usage", a.Handler()) // no token: a proxy or certificate identifies callers
	mux.Handle("/", s.apiTokens.guard(a.Handler()))
	// A client certificate allows callers of Envoy's service to refund hits, including on /json.
	// With TLSOnlyGRPC, however, HTTP does not check certificates. If ClientCA is also set, serve
	// /json only if it requires a token.
	if s.envoy != nil && (s.envoyTokens != nil || s.c.ClientCA == "" || !s.c.TLSOnlyGRPC) {
		mux.Handle("/json", s.envoyTokens.guard(s.envoy.JSONHandler()))
	}
	ep := s.newHTTPServer(exactPaths(mux), false)
	finish := ep.shutdown
	ep.shutdown = func(ctx context.Context) error {
		a.EndWaits() // waits may take longer than the shutdown timeout
		return finish(ctx)
	}
	return ep, nil
}

// exactPaths returns a handler that serves only clean paths, and answers other paths with 404. The
// mux itself would redirect them, and a redirected POST loses its body.
func exactPaths(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if clean := path.Clean(r.URL.Path); r.URL.Path == clean || r.URL.Path == clean+"/" && clean != "/" {
			mux.ServeHTTP(w, r)
			return
		}
		notFound(w, r)
	})
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	answer.Refuse(w, http.StatusNotFound, "not_found", "There is nothing here.")
}

// newGateway returns the endpoint of the gateway. All paths belong to the gateway's upstreams.
func (s *Server) newGateway() (endpoint, error) {
	c := *s.c.Gateway
	c.Logger = cmp.Or(c.Logger, s.c.Logger)
	if len(c.Routes) > 0 && len(s.config.Gateway.Routes) > 0 {
		c.Logger.Warn("server: the gateway uses the routes from flags and ignores gateway.routes of the configuration")
	}
	g, err := gateway.New(s.guard, c)
	if err != nil {
		return endpoint{}, err
	}
	s.undo.push("the gateway", func(context.Context) error { return g.Close() })
	return s.newHTTPServer(g, true), nil
}
