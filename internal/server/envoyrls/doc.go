// Package envoyrls implements Envoy's rate limit service v3. It is a drop-in replacement for
// envoyproxy/ratelimit: it reads that project's configuration and answers Envoy in the same way,
// with any [stint.Store]. docs/server.md describes what is the same and what differs.
//
//	config, err := envoyrls.Load("/etc/ratelimit", false)
//	...
//	service := envoyrls.NewService(store, config, envoyrls.Options{})
//	service.Register(grpcServer)
//
// With [Sliding] windows, either all descriptors of a request are charged or none. There is one
// exception: hits that a request reports at the end of a stream are charged even without room.
// Descriptors that share a counter are decided together. Requests with more than [stint.MaxClaims]
// counters, and requests with limits both in and outside quota mode, are decided in steps. If a
// later step denies the request, the service gives back the charges of earlier steps. All steps
// together must end within the Budget of the [stint.FailurePolicy]. Charges that could not be given
// back in that time are given back after the answer.
//
// With [Fixed] windows, every descriptor is counted separately, whether it is admitted or not. So a
// request for more hits than remain uses up the window. After the first denial in a window, a
// counter counts no more hits. This makes a difference only if a limit is raised during the window,
// or if hits are given back.
package envoyrls
