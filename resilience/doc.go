// Package resilience is for programs whose store is remote. It keeps decisions exact while the
// store answers, and within their time budget when the store is far away, slow or down.
//
// Package stores sets up a [Stack] on Redis, with one call:
//
//	store, err := stores.Open(ctx, "redis://localhost:6379")
//
// [New] puts a [Stack] on any store. A request is answered by the first of these that can:
//
//   - The deny cache repeats recent denials, from memory.
//   - Leases serve limits that are [stint.Limit.Leased], from blocks of units taken from the store
//     in advance.
//   - The store decides within the time budget. Requests that are made at the same time go to it
//     together. A breaker stops calling a store that keeps failing, and finds out when it is back.
//   - Otherwise this process decides, as the request's [stint.FailurePolicy] specifies.
//
// While the store is available, none of these admits more than a limit allows. A [stint.Observer]
// receives events about them; see [Decided], [StoreCall] and [BreakerChange].
//
// # Without the store
//
// Decisions without the store are marked as Degraded. Under [stint.FailLocal] a process continues
// from what it knows: it counts every unit that the store granted to it, and remembers what other
// processes had used. A process that does not share the store applies the same limits with the
// store and without. Among several instances, each may take its share of what is left, rounded up:
// with 1,000 per day, of which 200 are used, each of 10 instances may take 80. Decisions then
// report as remaining only the units that this process may still take.
//
// Units granted without the store are charged to it afterwards, as of the time of the grant, and
// even above the capacity. A settlement or a release that the store does not answer within the time
// budget is made later, and repeated until it takes effect or no longer matters. No caller waits
// for it. If a request was sent but not answered in time, its answer is awaited for another second.
// If the store charged the request after all, the charge is kept, or refunded if the caller was
// denied or got an error.
//
// In any window, a limit admits at most the sum of:
//
//   - the algorithm's own bound
//   - for each outage, instances × ceil(capacity / instances); nothing with one process
//   - the capacity once for each loss of the store's state, each process that starts without the
//     store, and each subject that had to be forgotten locally
//   - the units that are not charged to the store yet
//
// Under [stint.FailDeny] it admits at most the algorithm's own bound.
//
// Without the store, a request with a leased limit is denied once no lease can serve it, whatever
// its policy, unless the policy is to return the error. The charge of a local decision can be
// amended only in the process that made the decision.
package resilience
