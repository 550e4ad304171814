// Package resilience is for programs whose store is remote: it keeps decisions fast and exact, and
// within their time budget when the store is far away, slow or down.
//
// Package stores puts it on Redis, with one call:
//
//	store, err := stores.Open(ctx, "redis://localhost:6379")
//
// [New] puts a [Stack] on any store. A request is answered by the first of these that can:
//
//   - The deny cache answers subjects that were just denied, from memory.
//   - Leases serve limits that are [stint.Limit.Leased], from blocks of units taken ahead of need.
//   - The store decides within the time budget. Requests that are made at the same time go to it
//     together. A breaker stops asking a store that keeps failing, and finds out when it is back.
//   - Else this process decides, as the request's [stint.FailurePolicy] says.
//
// None of them admits more than a limit while the store can be asked. An [stint.Observer] receives
// what they do; see [Decided], [StoreCall] and [BreakerChange].
//
// # Without the store
//
// Decisions without the store are marked as Degraded. Under [stint.FailLocal] a process goes on
// from what it knows: it counts every unit that the store granted to it, and remembers what others
// had used. A process that has the store for itself applies the same limits with the store and
// without. Among several instances each may take its part of what is left, rounded up: of 1,000 per
// day, 200 of which are used, among 10 instances 80. What remains, as decisions report it, is what
// this process has left.
//
// What was granted without the store is charged to it afterwards, as of when it was granted, and
// above capacity if need be. A settlement or a release that the store does not answer within the
// time budget is made later, and repeated until it applies: no caller waits for it. A request that
// was sent and not answered in time is followed for another second: what the store charged after
// all is the charge, or is refunded if the caller was denied.
//
// In any window, a limit admits at most the algorithm's own bound; plus, per outage, nothing with
// one process, else at most instances × ceil(capacity / instances); plus one capacity per loss of
// the store's state, per process that starts without the store, and per subject that had to be
// forgotten locally; plus what is not charged yet. Under [stint.FailDeny] nothing is added.
//
// A request with a leased limit is denied without the store, whatever its policy, unless the policy
// is to return the error. A local decision can be amended in the process that made it.
package resilience
