// Package grpclimit limits gRPC servers and clients. It has interceptors that limit incoming calls,
// and interceptors that keep outgoing calls within the limits of an API. To limit each address to a
// hundred calls per minute:
//
//	unary, stream := grpclimit.ByIP(stint.PerMinute(100))
//	server := grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
//
// To limit each user across processes, through Redis, where userOf is a func(context.Context)
// string:
//
//	store, err := stores.Open(ctx, "redis://localhost:6379")
//	...
//	unary, stream := grpclimit.By(userOf, stint.PerMinute(100), grpclimit.WithStore(store))
//
// [By], [ByIP], [ClientIP] and the functions that return a single interceptor panic if an argument
// is invalid. [NewBy] and [NewClientIP] are for arguments that come from a configuration: they
// return all mistakes in one [*stint.InvalidError].
//
// # Servers
//
// [By] applies the same limits to all calls. For rules by tier and method, let a guard decide:
//
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(guard)),
//		grpc.ChainStreamInterceptor(grpclimit.StreamServerInterceptor(guard)),
//	)
//
// A guard decides every call before its handler runs. For its policies, a call is a POST to the
// path "/package.Service/Method" on the host that the client dialed, and metadata are its header
// fields. Put interceptors that authenticate callers before these interceptors in the chain, and
// pass their results with [WithClaims]. A stream counts once, unless its messages count: see
// [MessageServerInterceptor].
//
// A denied call fails with codes.ResourceExhausted. The message names the policy or tier, never the
// caller. The details are a RetryInfo, a QuotaFailure and, if the configuration has a contact, a
// Help with a link to it. The trailer "grpc-retry-pushback-ms" tells gRPC clients with a retry
// policy when to retry. It is -1, which means "do not retry", if waiting does not help or if the
// call's deadline comes first. A call that is refused because the store cannot be reached fails
// with codes.Unavailable, with the same trailer. Waits are rounded up to milliseconds. If all
// callers share the limit that denied the call, the jitter that the configuration sets for
// Retry-After is added.
//
// For refunds, the status of a call is the HTTP status that corresponds to its code. A status of
// 500 or more counts as 499 if the client has disconnected by then or the deadline of the call has
// passed. Otherwise, clients could get a refund by choosing a short deadline.
//
// # Clients
//
//	conn, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(grpclimit.UnaryClientInterceptor(api)),
//		grpc.WithChainStreamInterceptor(grpclimit.StreamClientInterceptor(api)),
//	)
//
// Every call waits for its turn among the calls of all processes. If the service asks clients to
// slow down, all processes pause. The interceptors never repeat a call. A gRPC retry policy works
// below the interceptors: its retries respect the pushback, but do not wait for a turn, and do not
// pause the other processes.
package grpclimit
