// Package envoyrls is Envoy's rate limit service v3, a drop-in replacement for
// envoyproxy/ratelimit: it reads that project's configuration and answers Envoy in the same way,
// over any [stint.Store]. docs/server.md says what is as there and what is not.
//
//	config, err := envoyrls.Load("/etc/ratelimit", false)
//	...
//	service, err := envoyrls.NewService(store, config, envoyrls.Options{})
//	...
//	service.Register(grpcServer)
//
// With [Sliding] windows all descriptors of a request are charged or none. Descriptors of one
// counter are decided together. Requests with more than [stint.MaxClaims] counters, and those with
// limits in quota mode beside others, are decided in steps, and what was charged is given back when
// a later step denies. All steps together have the Budget of the [stint.FailurePolicy]; what is
// left to give back after that is given back after the answer.
//
// With [Fixed] windows every descriptor is counted by itself, admitted or not, so a request for
// more than is left uses up the window. Counters stop at the first denial of a window instead of
// counting on: that shows only if a limit is raised during the window, or hits are given back.
package envoyrls
