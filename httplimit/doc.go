// Package httplimit is for HTTP servers and clients: middleware that limits incoming requests, and
// a transport that limits outgoing ones. A hundred requests per minute and address:
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
// method: its guard decides by a configuration.
//
//	guard, err := policy.NewGuard(store, conf.Set, policy.GuardConfig{})
//	...
//	http.ListenAndServe(":8080", httplimit.New(guard)(mux))
//
// [NewTransport] is for calling other people's APIs.
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
// echo answers the errors that handlers return further out, where a 5xx is seen too late to be
// refunded. If a policy refunds, follow the middleware by one that answers them with c.Error, as
// examples/routers/echo does. examples/routers/gin has a limit for a group of gin's routes.
//
// # Proxies
//
// [net/http/httputil.ReverseProxy] adds the fields of the upstream's response to those that are
// set. If upstreams send fields about limits of their own, delete them in its ModifyResponse, or
// clients see both. After an informational response, such as 103, it clears all that was set
// before: the response then says nothing about our limits, unless the proxy's ResponseWriter puts
// the fields back.
//
// # What a response says
//
// Which fields there are is chosen by the configuration (headers) or by [WithHeaders]. They replace
// those that an outer layer has set. A request that nothing limits has none. Responses share some
// of the values: other middleware may replace them, but must not write into the slices.
//
// The X fields show the limit that matters most: the one that denied for the longest, or admits the
// fewest further requests of this cost. A concurrency limit is shown if it denied, or if there is
// no other; it has neither Reset nor Window.
//
//	X-RateLimit-Limit      units per window, without burst
//	X-RateLimit-Remaining  units left, those of the burst included
//	X-RateLimit-Reset      seconds since 1970, or from now; rounded up. Of a denied request: when it
//	                       has room again, the instant of Retry-After. Of an allowed one: when
//	                       the limit is unused if nothing else happens
//	X-RateLimit-Window     seconds; shorter windows and odd ones have decimals: 0.25
//	X-RateLimit-Policy     name of the policy, or of the tier if it is the tier's limit
//	X-RateLimit-Tier       name of the tier
//	X-RateLimit-Burst      the most that can be taken at once, if that is more than the limit
//	X-RateLimit-Cost       what this request cost, in units of budgets
//	X-RateLimit-Denial     an id of the denial, for "stint why"
//	X-RateLimit-Degraded   "true" if the store could not be asked; alone if nothing is known of what was used
//
// RateLimit-Policy and RateLimit are those of draft-ietf-httpapi-ratelimit-headers-11, with an item
// for every limit:
//
//	RateLimit-Policy: "free-1m";q=60;w=60, "free-1h";q=500;w=3600
//	RateLimit: "free-1m";r=59;t=60, "free-1h";r=499;t=3600
//
// If RateLimit-Policy would have more than 512 bytes, both show only the limit that the X fields
// show, so that the header fields about limits stay below 2 KiB: proxies refuse large headers.
//
// An item is called after its policy or tier, its window, its own name if it has one ("cost" for
// budgets), and its algorithm if it is not sliding. Quota and window are what is strictly promised:
// with a burst, its size, in the time that earns as much. Windows are whole seconds, rounded up.
// The effective window t is the time until a limit that denied has room, and for the others until
// they are unused. Concurrency limits have no windows; their unit is concurrent-requests. Partition
// keys are not sent: they would show how callers are identified.
//
// # Answers
//
// A request that is denied is answered with 429 and Retry-After: the exact time in whole seconds,
// rounded up. If a limit that all callers share denied it, a random time is added (the jitter: up
// to a fifth of the wait, or up to a second if that is more, and never more than a minute): that
// limit has room for all of them at the same instant, and they do not all come back then. If no
// time helps there is no Retry-After. A request that is refused because the store cannot be reached
// is answered with 503, and with a Retry-After of a second.
//
// The body is JSON, application/problem+json or plain text, whichever the client's Accept header
// prefers, and JSON if it has no preference or wants none of them. Header and body say the same
// number:
//
//	{"error":"rate_limited","message":"Too many requests. Please slow down.",
//	 "retry_after_seconds":12,"policy":"free","tier":"free"}
//
// If the configuration has a contact for the policy or the tier, or for all, the body of a 429 has
// it too: as "contact" in both forms of JSON, and in a line of plain text. In problem+json a URL
// (http, https) is the type, instead of the one that is registered with IANA, and a text follows
// the detail.
//
// Nothing in an answer comes from the request. [WithDenied] and [WithError] replace answers.
//
// # Request ids
//
// Where a policy derives request ids, the body of a request without an id is read before the
// decision, if its length is announced and at most 64 KiB, and passed to the handler unchanged.
// It has ten seconds to arrive, which replace the server's ReadTimeout; afterwards the connection
// has no read deadline. A request whose body does not arrive is decided without an id: it is
// charged, and if it is allowed the answer is 408, 413 or 400, which no class of statuses under
// refund gives back. Nothing is derived from other bodies, nor from a body where the
// [http.ResponseWriter] has no read deadlines. Other requests are not touched.
//
// # Tokens of language models
//
// Where a policy has a usage, the beginning of a request's body is read before the decision, 64 KiB
// unless the policy says otherwise, in the same way and time, and what the response says about
// tokens is read while it passes. The handler gets the request with "Accept-Encoding: identity"
// and, if the policy wants that, with an option in its body that has streams say what was used.
//
// # After the response
//
// If a policy settles costs, refunds or limits concurrency, the response is watched for its status,
// its length and the header with the true cost, which is not sent. A handler that streams may set
// that header after the body. The handler's ResponseWriter can still flush, hijack, push, notify of
// a closed connection and be controlled by http.ResponseController as before. All other requests
// are served with the writer that came in, untouched.
//
// The status is the one that was sent, also if the handler panics afterwards, and 500 if it panics
// before. A 5xx counts as 499 if the client has hung up by then: nobody has a request refunded by
// leaving.
//
// While such a request is served, a client that takes nothing of the response for 30 seconds
// ([WithSendTimeout]) has it cut off: a client that does not read loses its place. The handler's
// write fails, and when the handler returns, the middleware panics with [http.ErrAbortHandler]. A
// handler with nothing to send may be silent for any time. Where the [http.ResponseWriter] has no
// write deadlines, the place is given back after another 30 seconds though the handler still waits.
// What the middleware cannot bound is the server's: how long the body of a request takes
// (ReadTimeout, or a read deadline of the handler's own), a connection of HTTP/2 of which nothing
// is read (WriteByteTimeout of its HTTP2Config), and connections that were hijacked.
//
// The end of such a response waits until the store has taken note, for one second at most if it is
// silent. A place that could not be given back expires, and so does a charge that could not be
// corrected.
package httplimit
