// Package stint enforces exact rate limits across any number of processes.
// Start with [New] and [Limiter.Allow], here with a limit of a hundred requests per minute for each
// user:
//
//	store, err := stores.Open(ctx, "memory")
//	...
//	lim, err := stint.New(store, stint.PerMinute(100))
//	...
//	d, err := lim.Allow(ctx, "user:42")
//	switch {
//	case err != nil:    // the store failed; there is no decision
//	case !d.Allowed:    // denied; try again after d.RetryAfter
//	}
//
// An HTTP server needs one line; see package httplimit:
//
//	http.ListenAndServe(":8080", httplimit.ByIP(stint.PerMinute(100))(mux))
//
// A [Limiter] holds one or more limits and a [Store] that remembers usage. "memory" is for limits
// inside one process. With the URL of a Redis or Valkey server, "redis://localhost:6379", any
// number of processes share the limits: scripts in Redis check and charge them atomically. While
// Redis is unavailable, each process enforces its share of the limits.
//
// See [Limiter] for the methods Allow, Wait, Peek and Take, and for those that correct or end a
// charge.
//
// # Guarantees
//
// An [AlgorithmSliding] limit of L per W admits at most L in any window of length W, wherever that
// window begins, for as long as the store answers; docs/resilience.md gives the bound for outages.
// Several limits are charged together or not at all. A denial charges nothing. Limits use the
// store's clock, so the clocks of callers do not matter.
//
// A denial is a value; a failure of the store is an error. With an error, there is no decision, but
// the request may have been charged. The caller chooses what to do without a store. Package
// resilience implements several policies, and package stores opens stores with it.
//
// # Other packages
//
//   - stores opens a store from a URL; memorystore, redisstore and resilience are its parts.
//   - httplimit and grpclimit limit servers and clients.
//   - outbound keeps calls to third-party APIs within their limits.
//   - policy decides which requests to admit, by rules for tiers and routes; config reads such
//     rules, and overrides keeps different limits for individual subjects.
//   - observe counts decisions and raises alerts; dashboard shows them.
//   - server is the daemon with all of these.
//   - driver and storetest are for authors of stores.
package stint
