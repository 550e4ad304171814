// Package stint is for programs that limit how often something may happen, exactly, across any
// number of processes. Start with [New] and [Limiter.Allow]. Packages memorystore and redisstore
// are the stores; package policy decides HTTP and gRPC requests by rules.
//
// A [Limiter] holds one or more limits and a [Store] that remembers:
//
//	store, err := memorystore.New(memorystore.Config{})
//	...
//	defer store.Close()
//	lim, err := stint.New(store, stint.PerMinute(100), stint.PerHour(1000))
//	...
//	d, err := lim.Allow(ctx, "user:42")
//	switch {
//	case err != nil:    // the store failed; nothing was decided
//	case !d.Allowed:    // denied; try again after d.RetryAfter
//	}
//
// With memorystore the limits hold inside one process. With redisstore any number of processes
// share them through Redis or Valkey, and every decision is one atomic script call.
//
// [Limiter] describes the verbs: Allow, Wait, Peek, Take, and what corrects or ends a charge.
//
// # What is promised
//
// An [AlgorithmSliding] limit of L per W admits at most L in any window of length W, wherever that
// window begins. Several limits are charged all or none. A denial charges nothing. Time is the
// store's, so clocks of callers do not matter.
//
// A denial is a value; a failure of the store is an error. When an error is returned, nothing was
// decided. What to do without a store is the caller's policy; package resilience implements
// several.
//
// # Other packages
//
// Package driver holds what only authors of stores need. Packages httplimit and grpclimit limit
// servers and clients, policy decides by rules for tiers and routes.
package stint
