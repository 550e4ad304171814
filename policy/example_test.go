package policy_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// A set of policies in Go, and a guard that decides by it. Package config reads the same from YAML;
// packages httplimit and grpclimit fill in the Input.
func Example() {
	set, err := policy.New(policy.Spec{
		Tiers: []policy.Tier{
			{Name: "anyone", Identity: []string{"ip"}, Limits: policy.Limits(stint.PerMinute(10))},
		},
		Policies: []policy.Policy{
			{Name: "health", Match: &policy.Match{Path: []string{"/healthz"}}, Skip: true},
			{Name: "login", Match: &policy.Match{Path: []string{"/login"}}, Limits: policy.Limits(stint.PerHour(1))},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	guard, _ := policy.NewGuard(store, set, policy.GuardConfig{Logger: discard})
	for _, path := range []string{"/login", "/login", "/search", "/healthz"} {
		var v policy.Verdict
		in := policy.Input{Method: "POST", Path: path, Peer: netip.MustParseAddr("192.0.2.1")}
		if err := guard.Decide(context.Background(), &in, &v); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: allowed %t, tier %q, route %q, skipped by %q\n", path, v.Decision.Allowed, v.Tier, v.Route, v.Skipped)
	}
	// Output:
	// /login: allowed true, tier "anyone", route "login", skipped by ""
	// /login: allowed false, tier "anyone", route "login", skipped by ""
	// /search: allowed true, tier "anyone", route "", skipped by ""
	// /healthz: allowed true, tier "", route "", skipped by "health"
}

// All mistakes are reported at once, each with its key and what would be right.
func ExampleNew_mistakes() {
	_, err := policy.New(policy.Spec{
		Tiers: []policy.Tier{{Name: "pro", Identity: []string{"usr"}, Limits: policy.Limits(stint.PerMinute(100))}},
		Policies: []policy.Policy{
			{Name: "export", Match: &policy.Match{Path: []string{"export"}}, Limits: policy.Limits(stint.PerHour(5))},
			{Name: "import"},
		},
	})
	fmt.Println(err)
	// Output:
	// stint: invalid: tiers[0].identity: unknown identity "usr"; want everyone, ip or user (did you mean "user"?)
	// policies[0].match.path: path "export" does not begin with /; want something like /users/{id}, /static/** or /**/*.css
	// policies[1]: does nothing; want limits, a budget, a cost, costs, hold, usage, settle, refund, request_id, failure, or skip: true
}

// The claims are what the application knows of the caller. The verdict says which limit matters
// most.
func ExampleGuard_Decide() {
	guard, stop := exampleGuard(policy.Spec{Tiers: []policy.Tier{
		{Name: "member", Identity: []string{"user"}, Limits: policy.Limits(stint.PerMinute(100))},
		{Name: "anonymous", Identity: []string{"everyone"}, Limits: policy.Limits(stint.PerMinute(1))},
	}})
	defer stop()
	for _, user := range []claims{{}, {}, {"user": "42"}} {
		var v policy.Verdict
		if err := guard.Decide(context.Background(), &policy.Input{Path: "/", Claims: user}, &v); err != nil {
			log.Fatal(err)
		}
		state := v.Decisive().Decisive()
		fmt.Println(v.Tier, v.Decision.Allowed, state.Remaining(), "of", state.Limit)
	}
	// Output:
	// anonymous true 0 of 1/1m
	// anonymous false 0 of 1/1m
	// member true 99 of 100/1m
}

// Follow corrects the charge when the response is known: a request that failed is refunded.
func ExampleGuard_Follow() {
	guard, stop := exampleGuard(policy.Spec{
		Tiers: []policy.Tier{
			{Name: "anyone", Identity: []string{"everyone"}, Limits: policy.Limits(stint.PerMinute(10))},
		},
		Policies: []policy.Policy{{Name: "failures", Refund: []int{5}}}, // 5 is all of 500 to 599
	})
	defer stop()
	for _, status := range []int{200, 502, 200} {
		var v policy.Verdict
		_ = guard.Decide(context.Background(), &policy.Input{Path: "/"}, &v)
		fmt.Println(v.Decision.Remaining(), status)
		if done := guard.Follow(context.Background(), &v); done != nil {
			done(policy.Outcome{Status: status})
		}
	}
	// Output:
	// 9 200
	// 8 502
	// 8 200
}

// Another set applies from the next request on, and what was used stays used.
func ExampleGuard_Replace() {
	guard, stop := exampleGuard(policy.Spec{Tiers: []policy.Tier{
		{Name: "anyone", Identity: []string{"everyone"}, Limits: policy.Limits(stint.PerMinute(1))},
	}})
	defer stop()
	decide := func() {
		var v policy.Verdict
		_ = guard.Decide(context.Background(), &policy.Input{Path: "/"}, &v)
		fmt.Println(v.Decision.Allowed, v.Decision.Remaining())
	}
	decide()
	decide()
	set, err := policy.New(policy.Spec{Tiers: []policy.Tier{
		{Name: "anyone", Identity: []string{"everyone"}, Limits: policy.Limits(stint.PerMinute(10))},
	}})
	if err != nil {
		log.Fatal(err)
	}
	_ = guard.Replace(set)
	decide()
	// Output:
	// true 0
	// false 0
	// true 8
}

// exampleGuard returns a guard over a store in memory.
func exampleGuard(spec policy.Spec) (guard *policy.Guard, stop func()) {
	set, err := policy.New(spec)
	if err != nil {
		log.Fatal(err)
	}
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	guard, err = policy.NewGuard(store, set, policy.GuardConfig{Logger: discard})
	if err != nil {
		log.Fatal(err)
	}
	return guard, func() { _ = store.Close() }
}
