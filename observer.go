package stint

import "context"

// Observer receives events from every part of stint. All parts use this one interface, so one value
// can be passed to each, for instance to count, to log or to trace. Package observe provides one.
//
// An observer ignores event types that it does not know.
type Observer interface {
	// Observe is called on the request path, by many goroutines at once. It must not block, and
	// must not keep or change the event after it returns.
	Observe(ctx context.Context, event Event)
}

// Event is an occurrence that a part of stint reports to an [Observer]. Its dynamic type is a
// pointer to a type of the package that sends it: *policy.Verdict, *policy.Settlement and
// *policy.Threshold from a guard; *resilience.Decided, *resilience.StoreCall and
// *resilience.BreakerChange from a stack; *outbound.Call and *outbound.Cooldown from an outbound
// client.
type Event interface {
	// Event does nothing. It marks event types.
	Event()
}
