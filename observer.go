package stint

import "context"

// Observer receives events from every part of stint. There is one interface for all of them, so
// that one value can be handed to each: to count, to log, to trace. Package observe has one.
//
// An event is a pointer to a type of the package that it comes from, which documents it: for
// instance *policy.Verdict for every decision of a guard. An observer ignores types it does not
// know.
type Observer interface {
	// Observe is called on the request path, by many goroutines at once. It must not block, and
	// must not keep or change the event after it returns.
	Observe(ctx context.Context, event any)
}
