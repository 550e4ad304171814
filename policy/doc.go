// Package policy is the configuration language of stint: who is asking, what they want to do,
// and how much of it they may. It turns the attributes of a request into a question to a store.
//
//	set, err := policy.Load("stint.yaml")
//	...
//	store, err := resilience.New(redis, resilience.Config{Failure: set.Failure(), Instances: set.Instances(), LocalBytes: set.LocalBytes()})
//	...
//	guard, err := policy.NewGuard(store, set, policy.GuardConfig{})
//	...
//	var v policy.Verdict
//	err = guard.Decide(ctx, &policy.Input{Method: "GET", Path: "/search", Peer: peer}, &v)
//
// Packages httplimit and grpclimit do that for servers. What the configuration says of a store that fails is done by
// package resilience: over a bare store every failure is an error.
//
// # How a request is judged
//
// A request belongs to one tier: the first whose match fits and one of whose identities the request has. The last
// tier must take everybody. Its limits apply to every request.
//
// Beside them every policy that matches applies, all or nothing: if one limit denies, none is charged. A policy
// that says skip and matches exempts the request from everything. What a request has only one of (its cost, what
// becomes of it when the store fails, how it is settled) is what the first matching policy in the file says that says
// anything. The first matching policy whose match has a path, a method or a host is the request's route.
//
// docs/configuration.md has all keys.
package policy
