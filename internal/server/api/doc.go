// Package api is the server's HTTP interface: the JSON API for programs, and forward-auth for
// proxies, which ask before they forward a request.
//
// A new proxy that can ask by forward-auth needs no code, only a directory in examples/proxies. If
// it describes the request in other header fields, add them in original.go. A proxy with a protocol
// of its own gets a package next to this one, as Envoy has with envoyrls.
//
//	a, err := api.New(guard, store, api.Config{Key: key})
//	...
//	mux.Handle("/", a.Handler())
//	mux.Handle("/auth", a.Auth())
//
// # JSON API
//
//	POST /v1/take     charge what a request costs, if there is room
//	POST /v1/peek     answer as take would, and charge nothing
//	POST /v1/reserve  book the earliest time with room, at most max_wait_seconds ahead
//	POST /v1/settle   correct a charge to its true cost: budgets, and limits that were sent along
//	POST /v1/refund   give all of a charge back
//	POST /v1/extend   renew a place under concurrency limits
//	POST /v1/release  give such a place back, and nothing else
//	POST /v1/batch    up to 100 requests, each with a mode, decided at the same time
//	GET /openapi.json the whole of it as an OpenAPI 3.1 document
//
// A request says what is to be decided in one of three ways:
//
//	{"method": "POST", "path": "/login", "peer": "203.0.113.9",
//	 "claims": {"user": "42"}, "headers": {"X-Api-Key": "k"}}
//	{"subject": "user:42", "policy": "login"}
//	{"subject": "user:42", "limits": ["100/1m burst 3x"], "cost": 5}
//
// A request with attributes is decided by the policies, as the middleware would decide it. All
// attributes are the caller's word, claims and addresses too, so not every caller may ask: see
// [Config.Public]. The path is that of the request line, encoded; a query in it has no effect. If
// the peer is one of the configuration's trusted proxies, its headers say who the client is.
// Callers that know the client leave those headers out.
//
// A request with a subject is held to the limits of a policy or a tier, even if they are in shadow.
// It is counted in the policy's own scope, or in the tier's (if that is the route, as a request
// without a route), unless "scope" names another. If a policy has other limits for each tier,
// "tier" says which. If the store fails, the failure policy of the policy applies, else that of the
// tier, else that of the configuration. Limits count requests, budgets count the cost, and a cost
// that nothing counts is a mistake. Bans apply, and denials lead to none.
//
// A request with limits of its own is refused unless [Config.AdHoc] is set. All of them count the
// cost.
//
// The status mirrors the decision: 200, 429, or 503 if the store could not be asked and the failure
// mode denies. The body always holds the whole decision, and the header fields are those of package
// httplimit. A repeat of an "id" that was charged is allowed and not charged again.
//
// # Charges
//
// A charge is a text that any process with the same [Config.Key] can settle or refund, once. It is
// signed: it cannot be forged, and the charge of one request cannot be changed into that of
// another. It is not encrypted and holds the subject. It does not include what rules in shadow have
// counted.
//
// # Forward-auth
//
// [API.Auth] is for nginx auth_request, Caddy forward_auth, Traefik and HAProxy. The proxy
// describes
// the request that it holds in X-Forwarded-Method and -Uri (with -Host), or in X-Original-Method
// and
// -URI or -URL: in one family only, and always with method and path. If both families are there,
// one
// may come from the client. Only trusted proxies may ask, see client_ip.trusted_proxies; others get
// 403.
//
// The answer is 200 or 429, both with the header fields of package httplimit and no-store. For
// nginx, which turns 429 into 500, "?deny=403" chooses another status. X-RateLimit-Status has the
// original status of every refusal: 429, 503, or 500 for a mistake.
//
// A proxy asks before the request and does not report its outcome: costs are not settled, nothing
// is refunded, and a place under a concurrency limit is held for its whole window, not only while
// the request is served. Nor does it pass on the body: no request ids are derived from it.
package api
