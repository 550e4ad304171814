// Package gateway is a reverse proxy that applies limits to requests before it forwards them. It is
// the command stint gateway.
//
//	g, err := gateway.New(guard, config.Gateway{Routes: []config.Route{{Upstream: "http://127.0.0.1:3000"}}})
//	...
//	defer g.Close()
//	http.ListenAndServe(addr, g)
//
// Routes, timeouts and sizes may also be in the configuration of the guard's set, see
// [config.Gateway]. The gateway follows changes: a request uses the set that decided it until it
// ends.
//
// The gateway decides requests as package httplimit does, with the same header fields and answers,
// and sends those that are allowed to the upstream of their route. It streams bodies in both
// directions at once and never collects them. Informational responses, trailers, server-sent
// events, websockets and gRPC pass. It retries nothing, except what net/http itself repeats: a
// request without a body and with a method that is safe to repeat, on a connection that turned out
// to be closed.
//
// # What an upstream can trust
//
// If client_ip.trusted_proxies does not list the peer, the gateway removes header fields that say
// who sends a request, or for what: Forwarded, X-Forwarded-*, X-Envoy-*, X-Real-IP and its
// variants, X-Original-URL and its variants, those in which trusted proxies assert claims or name
// the client (client_ip.header), those of [config.Gateway.Reserved], and all of these spelled with
// underscores and the like or after HTTP_, which many upstreams cannot tell apart. It does the same
// to trailers. Then it writes X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto and X-Real-IP
// anew. The fields of a trusted proxy stay, and the proxy's own address is appended to
// X-Forwarded-For, and to Forwarded if it sent that. A Connection field cannot remove any of them.
// X-HTTP-Method-Override and its variants pass, since the policies check them, but not under names
// that only some upstreams recognize.
//
// # What is refused
//
// The gateway refuses requests that an upstream could read differently than the policies did, so
// that nothing gets around the limits. A request that gets a 400 is neither charged nor refunded:
//
//   - methods that are not a token: 400
//   - paths with dot segments, encoded or not: 400
//   - paths with a raw backslash, and a raw "#" anywhere: 400, unless
//     [config.Gateway.PassUnusualPaths] forwards them, encoded in the path
//   - control characters: 400 by net/http, and a stream error in HTTP/2
//   - queries with spaces, which only HTTP/2 can carry, and invalid hosts: 400
//   - CONNECT: 405
//   - upgrades to anything but websocket, such as h2c, which would carry unseen requests: served
//     without the upgrade
//
// An encoded slash passes unchanged, and the policies see it both ways. If a prefix is stripped,
// the rest begins with exactly one slash, because many upstreams take what follows two for a host.
//
// # Slow clients
//
// If the client does not read a write of the response within [config.Gateway.SendTimeout], the
// response ends, and a websocket's connection. A write is at most 32 KiB; a response with nothing
// to send may be silent. If a body keeps the gateway waiting for longer than
// [config.Gateway.BodyTimeout], of which [config.Gateway.MinBodyRate] bytes earn back a second, the
// client gets a 408, unless the response has begun. gRPC calls to upstreams with h2c may be silent
// between two messages.
//
// HTTP/2 has many streams in a connection, and only its [http.Server] can tell that the client
// reads none of them: give it an HTTP2Config with a WriteByteTimeout.
//
// # Answers of its own
//
// They are JSON, and their request_id is in the log:
//
//	{"error":"bad_gateway","message":"The upstream did not send a valid response.","request_id":"K3…"}
//
//	400 bad_request        the request is ambiguous, or its body is malformed
//	404 no_route           no route matches
//	405 method_not_allowed CONNECT
//	408 request_timeout    the body arrived too slowly
//	413 too_large          the body is larger than MaxBody
//	499 client_gone        only in logs: the client went away, in the middle of its body or before the response
//	502 bad_gateway        the upstream cannot be reached, or its response cannot be read
//	504 gateway_timeout    the upstream did not answer in time
//
// A response that breaks off in the middle cannot be taken back: the gateway closes the client's
// connection, and for refunds the status that was sent counts.
package gateway
