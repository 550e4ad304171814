// Package resilience keeps decisions fast and calm over a store that is far away, slow
// or down. Each of its parts is a [stint.Store] that wraps another and can be left out;
// [New] puts them together in the order that works, outside in:
//
//   - DenyCache answers those who were just denied, from memory.
//   - Leases serves limits that are leased, from blocks of units taken ahead of need.
//   - Fallback decides when the store cannot, as the request's [stint.FailurePolicy] says.
//   - Deadline gives every decision a budget of time.
//   - Batching sends calls that are made at the same time to the store together.
//   - Breaker stops asking a store that keeps failing, and finds out when it is back.
//
// None of them lets anybody exceed a limit while the store can be asked. What a loss of the
// store can cost is stated at [Fallback].
package resilience
