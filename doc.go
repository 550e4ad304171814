// Package stint limits how often something may happen, exactly, across any
// number of processes.
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
// With memorystore the limits hold inside one process. With redisstore any
// number of processes share them through Redis or Valkey, and every decision
// is one atomic script call.
//
// # Verbs
//
// [Limiter.Allow] decides at once and is what most callers want.
// [Limiter.Wait] books the earliest free place and sleeps until it is due.
// [Limiter.Peek] looks and charges nothing. [Limiter.Refund] and
// [Limiter.Settle] correct a charge once its true cost is known.
// [Limiter.Acquire], [Limiter.Heartbeat] and [Limiter.Release] hold a place
// under a [Concurrency] limit. [Limiter.Take] is the general form under all of
// them: several subjects, request ids, any mode.
//
// # What is promised
//
// A [Sliding] limit of L per W admits at most L in any window of length W,
// wherever that window begins. Several limits are charged all or none. A denial
// charges nothing. Time is the store's, so clocks of callers do not matter.
//
// A denial is a value; a failure of the store is an error. Nothing is decided
// when an error is returned, and no error is swallowed here: what to do without
// a store is the caller's policy.
package stint
