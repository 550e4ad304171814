// Package server is for programs that embed the daemon, as cmd/stint does: it applies limits for
// programs in any language. Start with [New]. Its parts are in internal/server: the JSON API and
// forward-auth (api), Envoy's service (envoyrls), the gateway, and operators' actions (control).
//
//	s, err := server.New(server.Config{Policies: "stint.yaml", HTTP: ":8080", Admin: "127.0.0.1:6070"})
//	...
//	if err := s.Start(ctx); err != nil { // returns when it listens
//		...
//	}
//	...
//	err = s.Stop(ctx) // drains, finishes requests in progress, closes the stores
//
// # Listeners
//
// HTTP serves the JSON API (/v1/…), forward-auth for proxies (/auth), Envoy's service as JSON
// (/json) and probes (/livez, /readyz, /healthcheck). With [Config.Gateway] it is a reverse proxy
// instead and has no paths of its own. The policies may contain its routes.
//
// GRPC serves Envoy's rate limit service and the health service. It requires [Envoy.Rules] or
// [Envoy.XDS]. With XDS, it is not ready until the first rules have arrived. Tokens are checked
// before any part of a message is kept. Resources that need no token, calls of the health service
// and connections without a call, are bounded, and at the bound the oldest is closed.
//
// Admin serves the dashboard and its API (/, /api/…), metrics for Prometheus (/metrics), probes,
// the state of the configuration (/config), Envoy's rules (/rlconfig) and profiles (/debug/pprof/).
// It is for this machine: on an address that other machines can reach, it requires tokens. Without
// tokens, nothing can be changed.
//
// Metrics serves only /metrics and probes, and needs no token, so that a Prometheus on another
// machine can read them while Admin stays on this one. Let only Prometheus connect.
//
// Each listener has at most [Config.MaxConnections] connections.
//
// All listeners answer refused requests with {"error": "…", "message": "…"}.
//
// # Files
//
// The server reads policies, Envoy's rules, tokens and certificates again when they change, and on
// [Server.Reload]. Invalid files change nothing, and /config shows their mistakes.
//
// # Stopping
//
// When a server stops, it first reports that it is not ready, and keeps serving for [Config.Drain],
// so that load balancers notice. Then it stops accepting, finishes requests in progress, and closes
// the stores.
package server
