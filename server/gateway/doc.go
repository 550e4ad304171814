// Package gateway is a reverse proxy that holds requests to limits before it passes them on.
//
//	g, err := gateway.New(guard, gateway.Config{Routes: []gateway.Route{{Upstream: "http://127.0.0.1:3000"}}})
//	...
//	defer g.Close()
//	http.ListenAndServe(addr, g)
//
// Routes, times and sizes may also stand in the configuration of the guard's set, see [policy.Gateway]. They are followed: a
// request goes where the set says that it was judged by, and ends there whatever comes after.
//
// Every request is judged as package httplimit does it, with the same header fields and answers; what is allowed goes to
// the upstream of its route. Bodies are streamed in both directions at once and never collected; informational
// responses, trailers, server-sent events, websockets and gRPC pass. Nothing is tried twice, but for what net/http
// repeats itself: a request without a body and with a method that is safe to repeat, on a connection that turned out to be
// closed.
//
// # What an upstream can believe
//
// From a peer that client_ip.trusted_proxies does not list, header fields that say who is asking, or for what, are
// removed: Forwarded, X-Forwarded-*, X-Envoy-*, X-Real-IP and its relatives, X-Original-URL and its relatives, those in which trusted
// proxies assert claims or name the client (client_ip.header), those of [Config.Reserved], and all of them spelled with underscores and the like or after
// HTTP_, which many upstreams cannot tell apart. The same goes for trailers. X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto and
// X-Real-IP are then written anew. What a trusted proxy says stays, and the proxy's own address is appended to
// X-Forwarded-For, and to Forwarded if it sent that. A Connection field cannot remove any of them. X-HTTP-Method-Override and its
// relatives pass, since the policies judge what they say, but not under names that only some upstreams take for theirs.
//
// # What is refused
//
// Requests that an upstream could take for something else than they were judged as have no route around the limits. What is
// answered with 400 is not charged, and nothing is refunded:
//
//   - methods that are no token: 400
//   - paths with dot segments, encoded or not: 400
//   - paths with a raw backslash, and a raw "#" anywhere: 400, unless [policy.Gateway.PassUnusualPaths] has them passed on, encoded in the path
//   - control characters: 400 by net/http, and a stream error in HTTP/2
//   - queries with spaces, which only HTTP/2 can carry, and hosts with what no host has: 400
//   - CONNECT: 405
//   - upgrades to anything but websocket, such as h2c, through which requests would pass unseen: served without the upgrade
//
// An encoded slash passes as it came, and the policies see it both ways. Where a prefix is taken away, the rest begins with one slash,
// whatever came: many upstreams take what follows two for a host.
//
// # Slow clients
//
// A write of the response that the client does not take for [policy.Gateway.SendTimeout] ends the response, and a websocket's
// ends the connection. It is a piece of 32 KiB at most; what has nothing to send may be silent. A body that keeps the gateway
// waiting for longer than [Config.BodyTimeout], of which [policy.Gateway.MinBodyRate] bytes earn back a second, is answered with
// 408 until the response has begun. Calls of gRPC to upstreams with h2c may be silent between two messages.
//
// HTTP/2 has many streams in a connection, and only its [http.Server] can tell that the client takes nothing of any: give it an
// HTTP2Config with a WriteByteTimeout.
//
// # Answers of its own
//
// They are JSON, and their request_id is in the log:
//
//	{"error":"bad_gateway","message":"The upstream did not give a valid response.","request_id":"K3…"}
//
//	400 bad_request        the request is ambiguous, or its body is malformed
//	404 no_route           no route fits
//	405 method_not_allowed CONNECT
//	408 request_timeout    the body came too slowly
//	413 too_large          the body is larger than Config.MaxBody
//	499 client_gone        for logs only: the client went away, in the middle of its body or before the response
//	502 bad_gateway        the upstream cannot be reached, or its response cannot be read
//	504 gateway_timeout    the upstream did not answer in time
//
// A response that breaks off in the middle cannot be taken back: the client's connection is closed, and for refunds the status
// counts that was sent.
package gateway
