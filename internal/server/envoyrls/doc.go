// Package envoyrls is Envoy's rate limit service v3, a drop-in replacement for
// envoyproxy/ratelimit: it reads that project's configuration and answers Envoy in the same way,
// over any [stint.Store]. docs/server.md describes what is the same and what differs.
//
//	config, err := envoyrls.Load("/etc/ratelimit", false)
//	...
//	service, err := envoyrls.NewService(store, config, envoyrls.Options{})
//	...
//	service.Register(grpcServer)
//
// With [Sliding] windows, either all descriptors of a request are charged or none. Descriptors of
// one counter are decided together. Requests with more than [stint.MaxClaims] counters, and those
// with both limits in quota mode and others, are decided in steps, and charges are given back when
// a later step denies. All steps together have the Budget of the [stint.FailurePolicy]; charges
// that have not been given back by then are given back after the answer.
//
// With [Fixed] windows, every descriptor is counted separately, whether admitted or not, so a
// request for more than is left uses up the window. Counters stop at the first denial of a window
// instead of counting further. The difference is visible only if a limit is raised during the
// window, or if hits are given back.
package envoyrls
