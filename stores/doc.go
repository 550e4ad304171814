// Package stores opens a store for production from a URL. Start with [Open]:
//
//	store, err := stores.Open(ctx, "redis://localhost:6379")
//	...
//	defer store.Close()
//	lim, err := stint.New(store, stint.PerMinute(100))
//
// The URL is "memory" for limits inside one process, or the address of Redis or Valkey in one of
// the forms that package redisstore lists: a server, TLS, Sentinel, a Cluster, a Unix socket. Redis
// is wrapped in the stack of package resilience: a time budget for every decision, local limits
// while Redis is unavailable, a breaker, batching, a deny cache and leases.
//
// # While Redis is unavailable
//
// Open waits at most one second for the first attempt to connect, and returns a store that works in
// any case. The store connects in the background, and logs why it cannot. Until it is connected, it
// decides as the failure policy specifies, by default under limits in this process. Open returns an
// error only for a problem that waiting does not fix: a malformed URL, a missing or invalid TLS
// file, a setting out of range, or a name key that does not match the one in use in Redis. A
// refused connection, a silent server, a host without an address and a rejected password are not
// errors: otherwise, a program that is restarted during an outage or a password change would exit.
// If the store finds out later that a name key does not match, it logs that, and the failure policy
// continues to decide.
//
// A program that prefers to fail at start calls Ping:
//
//	if err := store.Ping(ctx); err != nil {
//		log.Fatal(err)
//	}
package stores
