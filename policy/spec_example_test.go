package policy_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// A set of policies in Go, without a configuration file.
func ExampleNew() {
	set, err := policy.New(policy.Spec{
		Tiers: []policy.Tier{
			{
				Name: "pro", Match: &policy.Match{Claim: map[string][]string{"plan": {"pro"}}},
				Identity: []string{"user"},
				Limits:   []stint.Limit{stint.PerMinute(100)},
			},
			{Name: "anyone", Identity: []string{"ip"}, Limits: []stint.Limit{stint.PerMinute(10)}},
		},
		Policies: []policy.Policy{
			{Name: "health", Match: &policy.Match{Path: []string{"/healthz"}}, Skip: true},
			{
				Name: "login", Match: &policy.Match{Method: []string{"POST"}, Path: []string{"/login"}},
				Identity: []string{"ip"},
				Limits:   []stint.Limit{stint.PerHour(1)},
			},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	guard, err := policy.NewGuard(store, set, policy.GuardConfig{Logger: discard})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, in := range []policy.Input{
		{Method: "POST", Path: "/login"},
		{Method: "POST", Path: "/login"},
		{Method: "GET", Path: "/search", Claims: claims{"user": "42", "plan": "pro"}},
		{Method: "GET", Path: "/healthz"},
	} {
		in.Peer = netip.MustParseAddr("192.0.2.1")
		var v policy.Verdict
		if err := guard.Decide(context.Background(), &in, &v); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: allowed %t, tier %q, route %q, skipped by %q\n", in.Path, v.Decision.Allowed, v.Tier, v.Route, v.Skipped)
	}
	// Output:
	// /login: allowed true, tier "anyone", route "login", skipped by ""
	// /login: allowed false, tier "anyone", route "login", skipped by ""
	// /search: allowed true, tier "pro", route "", skipped by ""
	// /healthz: allowed true, tier "", route "", skipped by "health"
}

// All mistakes are reported at once, each with its key and what would be right.
func ExampleNew_mistakes() {
	_, err := policy.New(policy.Spec{
		Tiers: []policy.Tier{{Name: "pro", Identity: []string{"usr"}, Limits: []stint.Limit{stint.PerMinute(100)}}},
		Policies: []policy.Policy{
			{Name: "export", Match: &policy.Match{Path: []string{"export"}}, Limits: []stint.Limit{stint.PerHour(5)}},
			{Name: "import"},
		},
	})
	fmt.Println(err)
	// Output:
	// stint: invalid: tiers[0].identity: no identity "usr"; there is everyone, ip or user (did you mean "user"?)
	// policies[0].match.path: path "export" does not begin with /; want something like /users/{id}, /static/** or /**/*.css
	// policies[1]: does nothing; want limits, a budget, a cost, settle, refund, request_id, failure, or skip: true
}
