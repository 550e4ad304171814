// Package gateway implements a reverse proxy that applies limits to requests before it forwards
// them. The command stint gateway runs it. docs/server.md describes what it forwards, changes and
// refuses.
//
//	g, err := gateway.New(guard, config.Gateway{Routes: []config.Route{{Upstream: "http://127.0.0.1:3000"}}})
//	...
//	defer g.Close()
//	http.ListenAndServe(addr, g)
//
// The configuration of the guard's set can also contain routes, timeouts and sizes; see
// [config.Gateway]. When the configuration changes, requests in progress keep the set that decided
// them. The gateway decides requests as package httplimit does, with the same header fields and
// answers.
//
// The gateway follows two rules. First, an upstream never sees a header field that identifies the
// sender of a request, unless a trusted proxy or the gateway wrote the field. Second, if an
// upstream could read a request differently than the policies did, the gateway refuses the request
// before it is charged, so that nothing bypasses the limits. PassUnusualPaths makes an exception to
// the second rule.
//
// An HTTP/2 connection has many streams. Only the [http.Server] can detect that the client reads
// none of them, so give the server an HTTP2Config with a WriteByteTimeout.
package gateway
