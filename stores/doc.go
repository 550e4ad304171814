// Package stores opens a store for production from a URL. Start with [Open]:
//
//	store, err := stores.Open(ctx, "redis://localhost:6379")
//	...
//	defer store.Close()
//	lim, err := stint.New(store, stint.PerMinute(100))
//
// The URL is "memory" for limits inside one process, or names Redis or Valkey in one of the forms
// that package redisstore lists: a server, TLS, Sentinel, a Cluster, a Unix socket. Redis is
// wrapped in the stack of package resilience: a time budget for every decision, local limits while
// Redis is away, a breaker, batching, a deny cache and leases.
//
// # While Redis is away
//
// Open waits for the first attempt to connect, for one second at most, and returns a store that
// works in any case: it connects in the background, logs why it cannot, and decides as the failure
// policy says until then, by default under limits in this process. Only what waiting does not fix
// is an error of Open: a malformed URL, a missing or invalid TLS file, a setting out of range, and
// a name key that does not match the one of this Redis. A refused connection, a silent server, a
// host without an address and a rejected password are not: a restart in the middle of an outage or
// of a change of passwords would otherwise end the program. A name key that turns out not to match
// later is logged, and the failure policy goes on deciding.
//
// A program that prefers to fail at start asks:
//
//	if err := store.Ping(ctx); err != nil {
//		log.Fatal(err)
//	}
package stores
