// Package httplimit limits HTTP servers and clients. It has middleware that limits incoming
// requests, and a transport that limits outgoing ones. To limit each address to a hundred requests
// per minute:
//
//	mux := http.NewServeMux()
//	...
//	http.ListenAndServe(":8080", httplimit.ByIP(stint.PerMinute(100))(mux))
//
// To limit each user, where userOf is a func(*http.Request) string:
//
//	http.ListenAndServe(":8080", httplimit.By(userOf, stint.PerMinute(100))(mux))
//
// To share the limit between processes, through Redis:
//
//	store, err := stores.Open(ctx, "redis://localhost:6379")
//	...
//	limit := httplimit.ByIP(stint.PerMinute(100), httplimit.WithStore(store), httplimit.WithName("api"))
//	http.ListenAndServe(":8080", limit(mux))
//
// [By] and [ByIP] apply the same limits to all requests. [New] is for rules by tier, route and
// method, which a guard takes from a configuration:
//
//	guard, err := policy.NewGuard(store, conf.Set, policy.GuardConfig{})
//	...
//	http.ListenAndServe(":8080", httplimit.New(guard)(mux))
//
// [NewTransport] is for calls to third-party APIs.
//
// Most functions expect arguments that are written in code, and panic if one is invalid. [NewBy]
// and [NewClientIP] are for arguments that come from a configuration: they return all mistakes in
// one [*stint.InvalidError].
//
// # Routers
//
// With limit := httplimit.ByIP(stint.PerMinute(100)), or any other middleware of this package:
//
//	mux := http.NewServeMux()            limit(mux)
//	chi.NewRouter(), mux.NewRouter()     r.Use(limit)
//	echo.New()                           e.Use(echo.WrapMiddleware(limit))
//	gin.New(), any other http.Handler    limit(engine)
//
// echo answers a handler's error in an outer layer, after this middleware has finished, so a 5xx
// comes too late for a refund. If a policy refunds, add middleware after this one that answers
// errors with c.Error, as in examples/routers/echo. For a limit on a group of gin's routes, see
// examples/routers/gin.
//
// # Proxies
//
// [net/http/httputil.ReverseProxy] adds the header fields of the upstream's response to those that
// are already set. If upstreams send fields about their own limits, delete these in the proxy's
// ModifyResponse; otherwise clients get both sets of fields. After an informational response, such
// as 103, the proxy clears all fields that were set before it. The final response then has none of
// this package's fields, unless the proxy's ResponseWriter restores them.
//
// # Response headers
//
// The headers section of the configuration, or [WithHeaders], selects the fields that are sent.
// They replace fields of the same name from an outer layer. The response to a request without
// limits has none of them. Responses share some of the slices that hold the values: other
// middleware may replace a slice in the header, but must not write into it.
//
// The X fields show the limit that matters most: the one with the longest wait among those that
// denied the request or, if the request was allowed, the one that admits the fewest further
// requests of the same cost. A concurrency limit is shown only if it denied or if there is no other
// limit; it has neither Reset nor Window.
//
//	X-RateLimit-Limit      units per window, without burst
//	X-RateLimit-Remaining  units left, including the burst
//	X-RateLimit-Reset      a time in seconds since 1970, or from now; rounded up. If the request was
//	                       denied: the time at which the limit has room again, as in Retry-After.
//	                       If it was allowed: the time at which the whole limit is available again
//	                       if no other request arrives
//	X-RateLimit-Window     seconds, with decimals if not whole: 0.25
//	X-RateLimit-Policy     name of the policy, or of the tier if it is the tier's limit
//	X-RateLimit-Tier       name of the tier
//	X-RateLimit-Burst      units that can be taken at once, if that is more than the limit
//	X-RateLimit-Cost       cost of this request, as charged to budgets
//	X-RateLimit-Denial     id of the denial, for "stint why"
//	X-RateLimit-Degraded   "true" if the store is unavailable. If the usage is also unknown, the
//	                       only other X field is Denial
//
// RateLimit-Policy and RateLimit follow draft-ietf-httpapi-ratelimit-headers-11, with an item for
// every limit:
//
//	RateLimit-Policy: "free-1m";q=60;w=60, "free-1h";q=500;w=3600
//	RateLimit: "free-1m";r=59;t=60, "free-1h";r=499;t=3600
//
// If RateLimit-Policy would be longer than 512 bytes, both fields show only the limit that the X
// fields show. This keeps the header fields about limits below 2 KiB, because proxies reject large
// headers.
//
// The name of an item consists of its policy or tier, its window, its own name if it has one
// ("cost" for budgets), and its algorithm if that is not sliding. The quota is the capacity,
// including a burst. A sliding limit admits at most the quota in any time span of one window. The
// window of a bucket is the time in which it refills completely. Windows are whole seconds, rounded
// up. The effective window t of a limit that denied the request is the time until it has room. For
// any other limit, t is the time until the whole limit is available again. Concurrency limits have
// no windows; their unit is concurrent-requests. Partition keys are not sent, because they would
// reveal how callers are identified.
//
// # Answers
//
// A denied request is answered with 429 and a Retry-After, which is the time until the limit has
// room, rounded up to whole seconds. If all callers share the limit that denied the request, a
// random time is added, so that they do not all retry at the same moment. By default, this jitter
// is up to a fifth of the wait, or up to a second if that is more, and never more than a minute. If
// waiting does not help, the answer has no Retry-After. A request that is refused because the store
// cannot be reached is answered with 503 and a Retry-After of one second.
//
// The body is JSON, application/problem+json or plain text, whichever the client's Accept header
// prefers. It is JSON if the client has no preference or accepts none of them. The time in the
// header and in the body is the same:
//
//	{"error":"rate_limited","message":"Too many requests. Please slow down.",
//	 "retry_after_seconds":12,"policy":"free","tier":"free"}
//
// If the configuration has a contact, for the policy, for the tier or at the top level, the body of
// a 429 includes it: as "contact" in JSON and problem+json, and on a line of its own in plain text.
// In problem+json, an http or https URL also replaces the type that is registered with IANA, and
// any other contact is appended to the detail.
//
// Answers contain nothing from the request. [WithDenied] and [WithError] replace answers.
//
// # Request ids
//
// If a policy derives request ids and a request has no id, its body is read before the decision.
// The length of the body must be announced and at most 64 KiB. The handler gets the body unchanged.
// The body must arrive within ten seconds, or within the server's ReadTimeout if that is shorter;
// afterwards the connection has no read deadline. If the body does not arrive, the request is
// decided without an id, and charged. If it is allowed, it is then answered with 408, 413 or 400
// instead of being passed to the handler. It counts as 499, so that a policy that refunds 4xx does
// not refund the charge. No id is derived if the body is longer, has an unknown length or is
// followed by a trailer, or if the [http.ResponseWriter] does not support read deadlines. Other
// requests are not affected.
//
// # Tokens of language models
//
// If a policy has a usage, the beginning of a request's body is read before the decision, with the
// same time limit as for request ids. By default, the first 64 KiB are read; a policy can set
// another size. The usage in the response is read while the response is sent. The handler gets the
// request with "Accept-Encoding: identity" and, if the policy injects it, with an option in its
// body that makes streams report their usage.
//
// # After the response
//
// If a policy settles costs, gives refunds or limits concurrency, the middleware watches the
// response: it records the status, the length, and the value of the header with the true cost. It
// removes that header, so that it is not sent. A handler that streams may set that header after the
// body. The handler's ResponseWriter still supports flushing, hijacking, pushing, close
// notification, and http.ResponseController as before. All other requests are served with the
// original writer.
//
// The recorded status is the one that was sent, even if the handler panics afterwards. If the
// handler panics before sending a status, 500 is recorded. A 5xx counts as 499 if the client has
// disconnected by then, so that clients cannot get a refund by disconnecting.
//
// A watched response is cut off if the client reads nothing for 30 seconds ([WithSendTimeout]), so
// a client that does not read loses its place under a concurrency limit. The handler's write fails,
// and when the handler returns, the middleware panics with [http.ErrAbortHandler]. A handler may
// pause for any time while it has nothing to send. If the [http.ResponseWriter] does not support
// write deadlines, the place is given back after another 30 seconds even if the handler is still
// blocked.
//
// The middleware cannot limit the following, so the server must:
//   - the time in which the body of a request must arrive: set ReadTimeout, or a read deadline in
//     the handler
//   - the time for which an HTTP/2 client may leave a whole connection unread: set WriteByteTimeout
//     in the server's HTTP2Config
//   - the lifetime of hijacked connections
//
// A watched response ends only when the store has recorded its outcome, but waits for at most three
// seconds if the store does not respond. A place that could not be given back, or a charge that
// could not be corrected, expires by itself.
package httplimit
