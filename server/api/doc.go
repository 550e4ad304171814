// Package api answers over HTTP what may be done: to callers that ask in JSON, and to proxies that ask before they forward.
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
//	POST /v1/reserve  book the earliest place, at most max_wait_ms ahead
//	POST /v1/settle   correct a charge to its true cost: budgets, and limits that were sent along
//	POST /v1/refund   give all of a charge back
//	POST /v1/extend   renew a place under concurrency limits
//	POST /v1/release  give such a place back, and nothing else
//	POST /v1/batch    up to 100 requests, each with a mode, decided at the same time
//	GET /openapi.json the whole of it as an OpenAPI 3.1 document
//
// A request says what is to be decided in one of three ways:
//
//	{"method": "POST", "path": "/login", "peer": "203.0.113.9", "claims": {"user": "42"}, "headers": {"X-Api-Key": "k"}}
//	{"subject": "user:42", "policy": "login"}
//	{"subject": "user:42", "limits": ["100/1m burst 3x"], "cost": 5}
//
// By attributes it is judged by the policies as the middleware would judge it. All of it is the caller's word, claims and
// addresses too, which is why not everybody may ask: see [Config.Public]. The path is that of the request line, encoded, and a query in it is of no account.
// If the peer is one of the configuration's trusted proxies, its headers say who the client is; who knows that leaves them out.
//
// By subject it is held to the limits of a policy or a tier, which has consequences even where the configuration has it in
// shadow. It is counted in the policy's own scope, or in the tier's (where that is the route, as a request that has none), unless "scope" names another. If a
// policy has other limits for each tier, "tier" says which. What happens when the store fails is up to the policy, else to the tier, else to the
// configuration as a whole. Limits count requests, budgets count the cost, and a cost that nothing counts is a mistake. Bans are obeyed and none is made.
//
// Limits of the caller's own are refused unless [Config.AdHoc] is set. The cost counts for all of them.
//
// The status mirrors the decision: 200, 429, or 503 if the store could not be asked and the failure mode denies. The body always holds
// all of the decision, and the header fields are those of package httplimit. A repeat of an "id" that was charged is allowed and not charged again.
//
// # Charges
//
// What was charged is named by a text that any process with the same [Config.Key] can settle or refund, once. It is signed: nobody can
// make one up, or turn that of one request into that of another. It is not encrypted and holds the subject. What rules in shadow have counted
// is not part of it.
//
// # Forward-auth
//
// [API.Auth] is for nginx auth_request, Caddy forward_auth, Traefik and HAProxy. The proxy tells of the request that it holds in
// X-Forwarded-Method and -Uri (with -Host), or in X-Original-Method and -URI or -URL; of one family, and always method and path. Who tells of
// both might be passing on what a client wrote. Only trusted proxies are believed, see client_ip.trusted_proxies; others are answered with 403.
//
// Requests are answered with 200 or 429, both with the header fields of package httplimit and no-store. For nginx, which turns 429 into 500, "?deny=403" chooses
// another status. X-RateLimit-Status says on every refusal which it is meant to be: 429, 503, or 500 for a mistake.
//
// A proxy asks before, and nobody tells what came of it: costs are not settled, nothing is refunded, and a place under a concurrency limit is kept for
// as long as its window, not as long as the request takes.
package api
