// Command overrides raises the limit of one customer while the program runs, with counts in memory.
// With Redis, all processes that share it would apply the override within a second.
//
//	go run ./examples/overrides
//
// Three requests of user 42 are allowed. With the override, which allows five, two more are
// allowed, because usage is kept. After the override is removed, no request is allowed.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/overrides"
	"github.com/stint-limiter/stint/policy"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		return err
	}
	defer store.Close()
	set, err := policy.New(policy.Spec{
		Tiers: []policy.Tier{
			{Name: "api", Identity: []string{"user", "ip"}, Limits: policy.Limits(stint.PerHour(3))},
		},
	})
	if err != nil {
		return err
	}
	table, err := overrides.Open(ctx, store, overrides.Config{})
	if err != nil {
		return err
	}
	defer table.Close()
	guard, err := policy.NewGuard(store, set, policy.GuardConfig{Overrides: table})
	if err != nil {
		return err
	}

	// ask sends requests until one is denied.
	ask := func(when string) error {
		for n := 0; ; n++ {
			var v policy.Verdict
			err := guard.Decide(ctx, &policy.Input{Method: "GET", Path: "/", Claims: user("42")}, &v)
			if err != nil {
				return err
			}
			if !v.Decision.Allowed {
				fmt.Printf("%s: %d allowed, then denied by %s\n", when, n, v.Results[0].Limits[0])
				return nil
			}
		}
	}
	if err := ask("configured"); err != nil {
		return err
	}
	err = table.Set(ctx, overrides.Override{Subject: "user:42", Policy: "api", Limits: []stint.Limit{stint.PerHour(5)},
		Until: time.Now().Add(24 * time.Hour), Why: "TICKET-7", By: "ann"})
	if err != nil {
		return err
	}
	if err := ask("raised until tomorrow"); err != nil {
		return err
	}
	if _, err := table.Unset(ctx, "user:42", "api"); err != nil {
		return err
	}
	return ask("removed")
}

// user is the caller. A real program takes it from a session or a token.
type user string

func (u user) Claim(name string) string {
	if name == "user" {
		return string(u)
	}
	return ""
}
