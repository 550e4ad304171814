// Package gateway is a reverse proxy that applies limits to requests before it forwards them. The
// command stint gateway runs it; docs/server.md describes what it forwards, changes and refuses.
//
//	g, err := gateway.New(guard, config.Gateway{Routes: []config.Route{{Upstream: "http://127.0.0.1:3000"}}})
//	...
//	defer g.Close()
//	http.ListenAndServe(addr, g)
//
// The configuration of the guard's set may also contain routes, timeouts and sizes; see
// [config.Gateway]. When the configuration changes, requests in progress keep the set that decided
// them. The gateway decides requests as package httplimit does, with the same header fields and
// answers.
//
// The gateway follows two rules. An upstream never sees a header field that identifies the sender
// of a request unless a trusted proxy or the gateway wrote it. And before a request is charged, the
// gateway refuses it if an upstream could read it differently than the policies did, so that
// nothing bypasses the limits. The second rule has an exception if PassUnusualPaths is set.
//
// An HTTP/2 connection has many streams, and only the [http.Server] can detect that the client
// reads none of them: set an HTTP2Config with a WriteByteTimeout.
package gateway
