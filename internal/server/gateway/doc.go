// Package gateway is a reverse proxy that applies limits to requests before it forwards them. It is
// the command stint gateway; docs/server.md says what it forwards, changes and refuses.
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
// Two rules hold everywhere: an upstream never sees a header field that says who sends a request
// unless a trusted proxy or the gateway wrote it, and a request that an upstream could read
// differently than the policies did is refused before it is charged, so that nothing gets around
// the limits.
//
// HTTP/2 has many streams in a connection, and only its [http.Server] can tell that the client
// reads none of them: give it an HTTP2Config with a WriteByteTimeout.
package gateway
