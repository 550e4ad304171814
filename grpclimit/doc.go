// Package grpclimit is for gRPC servers and clients: interceptors that limit incoming calls, and
// outgoing calls by the limits of the API. A hundred calls per minute and address:
//
//	unary, stream := grpclimit.ByIP(stint.PerMinute(100))
//	server := grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
//
// Per user, where userOf is a func(context.Context) string, and across processes, through Redis:
//
//	store, err := stores.Open(ctx, "redis://localhost:6379")
//	...
//	unary, stream := grpclimit.By(userOf, stint.PerMinute(100), grpclimit.WithStore(store))
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
// A guard judges every call before its handler runs. To its policies a call is a POST to the path
// "/package.Service/Method" on the host that the client dialed; metadata are its header fields.
// Whatever authenticates callers stands before these interceptors in the chain; [WithClaims] hands
// over what it found.
//
// A call that is denied ends with ResourceExhausted. The message names the policy, never the
// caller. The details are a RetryInfo, a QuotaFailure and, if the configuration has a contact, a
// Help with a link to it. The trailer "grpc-retry-pushback-ms" tells gRPC clients with a retry
// policy when to retry, or with -1 not to: because no wait will help, or because the call's
// deadline comes first. A call that is refused because the store cannot be asked ends with
// Unavailable, with the same trailer. Waits are exact in milliseconds, rounded up. If a limit that
// all callers share denied the call, the jitter that the configuration has for Retry-After is
// added.
//
// Where a policy refunds, the status of a call is the one that HTTP has for its code. A failure
// counts as 499 if the client has left by then or its deadline has passed: nobody has a call
// refunded by choosing a short deadline.
//
// # Clients
//
//	conn, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(grpclimit.UnaryClientInterceptor(api)),
//		grpc.WithChainStreamInterceptor(grpclimit.StreamClientInterceptor(api)),
//	)
//
// Every call waits for its turn among those of all processes. If the service says to slow down, all
// of them pause. The interceptors never repeat a call. A retry policy of gRPC does so below them:
// its repeats respect the pushback, but neither wait for a turn nor pause the others.
package grpclimit
