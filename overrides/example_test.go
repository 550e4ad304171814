package overrides_test

import (
	"context"
	"fmt"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/overrides"
)

// One customer gets more than the configured 100/1m.
func Example() {
	ctx := context.Background()
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	table, err := overrides.Open(ctx, store, overrides.Config{})
	if err != nil {
		panic(err)
	}
	defer table.Close()
	err = table.Set(ctx, overrides.Override{Subject: "user:42", Policy: "api",
		Limits: []stint.Limit{stint.PerMinute(500)}, Why: "TICKET-7", By: "ann"})
	if err != nil {
		panic(err)
	}
	configured := []stint.Limit{stint.PerMinute(100)}
	fmt.Println(table.Limits("user:42", "api", configured), table.Limits("user:43", "api", configured))
	// Output: [500/1m] [100/1m]
}
