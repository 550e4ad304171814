// Package server is the daemon: it makes limits available to everything that is not Go.
//
//	s, err := server.New(server.Config{Policies: "stint.yaml", HTTP: ":8080", Admin: "127.0.0.1:6070"})
//	...
//	if err := s.Start(ctx); err != nil { // returns when it listens
//		...
//	}
//	...
//	err = s.Stop(ctx) // drains, finishes what is under way, closes the stores
//
// # Listeners
//
// HTTP has the JSON API (/v1/…), forward-auth for proxies (/auth), Envoy's service as JSON (/json) and probes
// (/livez, /readyz, /healthcheck). With [Config.Gateway] it is a reverse proxy instead, and has no paths of its own; where
// requests go may be said by the policies too.
//
// GRPC has Envoy's rate limit service and the health service. It needs [Config.Envoy]. Tokens are checked before anything of
// a message is kept. What needs none, the health service and connections that have made no call, has bounds, at which the
// oldest goes first.
//
// Admin has the dashboard and its API (/, /api/…), metrics for Prometheus (/metrics), probes, the state of the configuration
// (/config), Envoy's rules (/rlconfig) and profiles (/debug/pprof/). It is for this machine: on an address that others can
// reach it must have tokens. Without tokens nothing can be changed there.
//
// Each of them has at most [Config.MaxConnections].
//
// What is refused is answered with {"error": "…", "message": "…"} everywhere.
//
// # Files
//
// Policies, Envoy's rules, tokens and certificates are read again when they change, and by [Server.Reload]. Files that are
// wrong change nothing, and /config says what is wrong with them.
//
// # The end
//
// A server that is told to stop first says that it is not ready, and goes on to serve for [Config.Drain], so that load
// balancers notice. Then it accepts nothing more, finishes what is under way, and closes the stores.
package server
