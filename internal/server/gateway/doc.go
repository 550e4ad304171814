// Package gateway is a reverse proxy that applies limits to requests before it forwards them. The
// command stint gateway runs it; docs/server.md describes what it forwards, changes and refuses.
//
//	g, err := gateway.New(guard, config.Gateway{Routes: []config.Route{{Upstream: "http://127.0.0.1:3000"}}})
//	...
//	defer g.Close()
//	http.ListenAndServe(addr, g)
//
// Routes, timeouts and sizes may also be in the configuration of the guard's set, see
// [config.Gateway]. The gateway follows changes: a request uses the set that decided it until it
// ends. It decides requests as package httplimit does, with the same header fields and answers.
//
// Two rules always hold. An upstream never sees a header field that identifies the sender of a
// request unless a trusted proxy or the gateway wrote it. And a request that an upstream could read
// differently than the policies did is refused before it is charged, so that nothing bypasses the
// limits.
//
// In HTTP/2, a connection has many streams, and only its [http.Server] can detect that the client
// reads none of them: set an HTTP2Config with a WriteByteTimeout.
package gateway
