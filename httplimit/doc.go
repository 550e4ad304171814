// Package httplimit limits HTTP servers and clients. It has middleware that limits incoming
// requests, and a transport that limits outgoing ones. To limit each address to a hundred requests
// per minute:
//
//	mux := http.NewServeMux()
//	...
//	http.ListenAndServe(":8080", httplimit.ByIP(stint.PerMinute(100))(mux))
//
// Per user, where userOf is a func(*http.Request) string:
//
//	http.ListenAndServe(":8080", httplimit.By(userOf, stint.PerMinute(100))(mux))
//
// Across processes, through Redis:
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
// echo answers the errors of handlers in an outer layer, so the middleware would see a 5xx too late
// to refund it. If a policy refunds, add a middleware after this one that answers errors with
// c.Error, as in examples/routers/echo. examples/routers/gin has a limit for a group of gin's
// routes.
//
// # Proxies
//
// [net/http/httputil.ReverseProxy] adds the header fields of the upstream's response to those that
// are already set. If upstreams send fields about limits of their own, delete them in its
// ModifyResponse; otherwise clients see both. After an informational response, such as 103, the
// proxy clears all fields that were set before: the response then has no fields about our limits,
// unless the proxy's ResponseWriter restores them.
//
// # Response headers
//
// The configuration (headers) or [WithHeaders] selects the fields that are sent. They replace
// fields of an outer layer. A request without limits gets none. Responses share some of the values:
// other middleware may replace them, but must not write into the slices.
//
// The X fields show the limit that matters most: the one that denied for the longest time, or that
// admits the fewest other requests of this cost. A concurrency limit is shown only if it denied or
// if there is no other limit; it has neither Reset nor Window.
//
//	X-RateLimit-Limit      units per window, without burst
//	X-RateLimit-Remaining  units left, including the burst
//	X-RateLimit-Reset      seconds since 1970, or from now; rounded up. For a denied request, when
//	                       the limit has room again, as in Retry-After. For an allowed one, when
//	                       the limit is unused if no other request comes
//	X-RateLimit-Window     seconds, with decimals if not whole: 0.25
//	X-RateLimit-Policy     name of the policy, or of the tier if it is the tier's limit
//	X-RateLimit-Tier       name of the tier
//	X-RateLimit-Burst      units that can be taken at once, if more than the limit
//	X-RateLimit-Cost       cost of this request, in units of budgets
//	X-RateLimit-Denial     id of the denial, for "stint why"
//	X-RateLimit-Degraded   "true" if the store is unavailable; the only field if usage is unknown
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
// ("cost" for budgets), and its algorithm if that is not sliding. Quota and window are strict
// bounds. The quota is the capacity, including a burst. The window is a time in which at most the
// quota is admitted; for a bucket, it is the time that refills its capacity. Windows are whole
// seconds, rounded up. The effective window t is the time until a limit that denied has room or,
// for other limits, until they are unused. Concurrency limits have no windows; their unit is
// concurrent-requests. Partition keys are not sent, because they would reveal how callers are
// identified.
//
// # Answers
//
// A denied request is answered with 429 and a Retry-After of the exact time in whole seconds,
// rounded up. If all callers share the limit that denied it, a random time is added, so that they
// do not all come back at the instant when the limit has room again. This jitter is up to a fifth
// of the wait, or up to a second if that is more, and never more than a minute. If waiting does not
// help, there is no Retry-After. A request that is refused because the store cannot be reached is
// answered with 503 and a Retry-After of one second.
//
// The body is JSON, application/problem+json or plain text, whichever the client's Accept header
// prefers. It is JSON if the client has no preference or accepts none of them. The time in the
// header and in the body is the same:
//
//	{"error":"rate_limited","message":"Too many requests. Please slow down.",
//	 "retry_after_seconds":12,"policy":"free","tier":"free"}
//
// If the configuration has a contact for the policy, the tier or everything, the body of a 429
// includes it: as "contact" in JSON and problem+json, and on a line of its own in plain text. In
// problem+json, an http or https URL also replaces the type that is registered with IANA, and any
// other contact is appended to the detail.
//
// Answers contain nothing from the request. [WithDenied] and [WithError] replace answers.
//
// # Request ids
//
// If a policy derives request ids, the body of a request without an id is read before the decision,
// provided its length is announced and at most 64 KiB, and passed to the handler unchanged. It has
// ten seconds to arrive, instead of the server's ReadTimeout; afterwards the connection has no read
// deadline. If the body does not arrive, the request is decided without an id, and charged. If it
// is allowed, it is answered with 408, 413 or 400, and the charge is never refunded. No id is
// derived from other bodies, or if the [http.ResponseWriter] does not support read deadlines. Other
// requests are not affected.
//
// # Tokens of language models
//
// If a policy has a usage, the beginning of a request's body is read before the decision, 64 KiB
// unless the policy sets another size, in the same way and with the same time limit. The usage in
// the response is read while the response is sent. The handler gets the request with
// "Accept-Encoding: identity" and, if the policy injects it, with an option in its body that makes
// streams report their usage.
//
// # After the response
//
// If a policy settles costs, refunds or limits concurrency, the middleware watches the response for
// its status, its length and the header with the true cost, which is not sent. A handler that
// streams may set that header after the body. The handler's ResponseWriter still supports flushing,
// hijacking, pushing, notification of closed connections, and http.ResponseController as before.
// All other requests are served with the original writer.
//
// The status is the one that was sent, even if the handler panics afterwards, or 500 if the handler
// panics before sending one. A 5xx counts as 499 if the client has disconnected by then, so that
// clients cannot get a refund by disconnecting.
//
// While such a request is served, its response is cut off if the client reads nothing for 30
// seconds ([WithSendTimeout]): a client that does not read loses its place. The handler's write
// fails, and when the handler returns, the middleware panics with [http.ErrAbortHandler]. A handler
// may pause for any time while it has nothing to send. If the [http.ResponseWriter] does not
// support write deadlines, the place is given back after another 30 seconds even if the handler is
// still blocked. The server must limit what the middleware cannot: the time that the body of a
// request takes to arrive (ReadTimeout, or a read deadline that the handler sets), HTTP/2
// connections from which the client reads nothing (WriteByteTimeout of its HTTP2Config), and
// hijacked connections.
//
// The end of such a response waits until the store has recorded the outcome, for at most one second
// if the store does not respond. A place that could not be given back expires, and so does a charge
// that could not be corrected.
package httplimit
