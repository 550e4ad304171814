// Package policy decides requests according to rules: it finds the tier, the policies and the
// subjects of a request, and asks a store. Start with [New] and [NewGuard]. A set of policies is
// written in Go, as a [Spec], or in YAML, which package config reads.
//
//	set, err := policy.New(policy.Spec{
//		Tiers: []policy.Tier{{Name: "anyone", Identity: []string{"ip"}, Limits: policy.Limits(stint.PerMinute(100))}},
//	})
//	...
//	guard, err := policy.NewGuard(store, set, policy.GuardConfig{})
//	...
//	var v policy.Verdict
//	err = guard.Decide(ctx, &policy.Input{Method: "GET", Path: "/search", Peer: peer}, &v)
//
// Packages httplimit and grpclimit do this for servers. Package resilience applies the failure
// policies of a set. Without it, every failure of the store is an error.
//
// # How a request is decided
//
// A request belongs to the first tier that meets two conditions: the request fits the tier's match,
// and it has one of the tier's identities. The last tier must take every request. The tier's limits
// apply to every request of the tier.
//
// In addition, every matching policy applies. If one limit denies the request, no limit is charged.
// A matching policy with Skip exempts the request from all limits and bans. A request has one cost,
// one failure policy and one way to settle: each comes from the first matching policy that sets it.
// The request's route is the first matching policy whose match has a path, a method or a host.
package policy
