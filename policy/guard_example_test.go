package policy_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// A guard judges requests by a configuration. Packages httplimit and grpclimit fill in what is
// known of a request.
func ExampleGuard() {
	conf, err := config.Parse("stint.yaml", []byte(`
tiers:
  - {name: signed-in, identity: user, limits: 100/1m}
  - {name: anonymous, identity: ip, limits: 2/1m}
policies:
  - {name: login, match: {method: POST, path: /login}, identity: ip, limits: 5/15m}
`))
	if err != nil {
		log.Fatal(err)
	}
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	guard, err := policy.NewGuard(store, conf.Set, policy.GuardConfig{Logger: discard})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		var v policy.Verdict
		in := policy.Input{Method: "POST", Path: "/login", Peer: netip.MustParseAddr("192.0.2.1")}
		if err := guard.Decide(context.Background(), &in, &v); err != nil {
			log.Fatal(err)
		}
		result := v.Decisive()
		state := result.Decisive()
		fmt.Printf("%s, %s: allowed %v, %d left of %s's %s\n", v.Tier, v.Route, v.Decision.Allowed, state.Remaining(),
			result.Rule.Name(), state.Limit)
	}
	// Output:
	// anonymous, login: allowed true, 1 left of anonymous's 2/1m
	// anonymous, login: allowed true, 0 left of anonymous's 2/1m
	// anonymous, login: allowed false, 0 left of anonymous's 2/1m
}
