// Package server runs the daemon, which applies limits for programs in any language. It is for
// programs that embed the daemon, as cmd/stint does. Start with [New]. The daemon's parts are in
// internal/server: the JSON API and forward-auth (api), Envoy's service (envoyrls), the gateway,
// and operators' actions (control).
//
//	s, err := server.New(server.Config{Policies: "stint.yaml", HTTP: ":8080", Admin: "127.0.0.1:6070"})
//	...
//	if err := s.Start(ctx); err != nil { // returns once the server listens
//		...
//	}
//	...
//	err = s.Stop(ctx) // drains, finishes requests in progress, closes the stores
//
// # Listeners
//
// HTTP serves the JSON API (/v1/…) and its description (/openapi.json), forward-auth for proxies
// (/auth), Envoy's service as JSON (/json), and probes (/livez, /readyz, /healthcheck). With
// [Config.APITokens], the API requires a token, except for /v1/usage, where a trusted proxy or a
// certificate identifies the caller. The description and the probes require no token. With
// [Config.Gateway], HTTP is a reverse proxy instead, and has no paths of its own. The routes of the
// proxy can be set in the policies.
//
// GRPC serves Envoy's rate limit service and the health service. It requires [Envoy.Rules] or
// [Envoy.XDS]. With XDS, the server is not ready until the first rules have arrived. A call's token
// is checked before any part of the message is kept in memory. Clients without a token can connect,
// and can call the health service. Therefore, the server limits the number of connections that have
// made no other call, and the number of calls to the health service. When one of these limits is
// reached, the server ends the oldest connection or call.
//
// Admin serves the dashboard and its API (/, /api/…), metrics for Prometheus (/metrics), probes,
// the state of the configuration (/config), Envoy's rules (/rlconfig) and profiles (/debug/pprof/).
// On an address that other machines can reach, it requires tokens. Without tokens, it is read-only
// unless [Config.AdminOpen] is set.
//
// Metrics serves only /metrics and probes, and requires no token. Prometheus on another machine can
// read the metrics there, while Admin listens on a local address. Allow only Prometheus to connect
// to it.
//
// Each listener has at most [Config.MaxConnections] open connections.
//
// All listeners except GRPC answer refused requests with {"error": "…", "message": "…"}. The path
// /json answers invalid requests in plain text.
//
// # Files
//
// The server reads policies, Envoy's rules, tokens and certificates again when the files change,
// and when [Server.Reload] is called. An invalid file has no effect, and /config shows the mistakes
// in it.
//
// # Stopping
//
// When a server stops, it first reports that it is not ready, and keeps serving for [Config.Drain],
// so that load balancers notice. Then it stops accepting connections, finishes requests in
// progress, and closes the stores.
package server
