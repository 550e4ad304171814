// Package server is for programs that embed the daemon, as cmd/stint does: it offers limits to
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
// instead and has no paths of its own. The policies may hold its routes.
//
// GRPC serves Envoy's rate limit service and the health service. It needs [Envoy.Rules]
// or [Envoy.XDS], and is not ready until the first rules have arrived over the latter. Tokens are
// checked before any of a message is kept. What needs no token, the health service and connections
// that have made no call, is bounded, and at the bound the oldest goes first.
//
// Admin serves the dashboard and its API (/, /api/…), metrics for Prometheus (/metrics), probes,
// the state of the configuration (/config), Envoy's rules (/rlconfig) and profiles (/debug/pprof/).
// It is for this machine: on an address that others can reach, it requires tokens. Without tokens
// nothing can be changed.
//
// Metrics serves only /metrics and probes, and needs no token, so that a Prometheus on another
// machine can read them while Admin stays on this one. Let only Prometheus connect.
//
// Each of them has at most [Config.MaxConnections].
//
// Refused requests get {"error": "…", "message": "…"} everywhere.
//
// # Files
//
// The server reads policies, Envoy's rules, tokens and certificates again when they change, and on
// [Server.Reload]. Invalid files change nothing, and /config says what is wrong with them.
//
// # Stopping
//
// When a server stops, it first reports that it is not ready, and keeps serving for [Config.Drain],
// so that load balancers notice. Then it stops accepting, finishes requests in progress, and closes
// the stores.
package server
