package driver_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/memorystore"
)

// A store of this module shows what it knows about a subject.
func ExampleInspector() {
	memory, _ := memorystore.New(memorystore.Config{})
	defer memory.Close()
	ctx := context.Background()
	limits := []stint.Limit{stint.PerMinute(10)}
	lim, _ := stint.New(memory, limits[0], stint.WithBans(stint.BanPolicy{}))
	_, _ = lim.AllowN(ctx, "user:42", 3)
	_ = lim.Ban(ctx, "user:7", time.Hour)

	var store driver.Inspector = memory
	seen, _ := store.Inspect(ctx, stint.Claim{Subject: "user:42", Limits: limits})
	window := seen.Windows[0]
	fmt.Println(window.Limit, window.Used, "used in", len(window.Entries), "charge")
	bans, _ := store.Bans(ctx, 10)
	fmt.Println(bans[0].Subject)
	// Output:
	// 10/1m 3 used in 1 charge
	// user:7
}

// counting is a store that wraps another store and counts the requests to it.
type counting struct {
	stint.Store
	requests int
}

func (c *counting) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	c.requests++
	return c.Store.Take(ctx, r)
}

// TakeBatch makes counting a BatchStore, which package resilience requires.
func (c *counting) TakeBatch(ctx context.Context, batch []*driver.Call) {
	for _, call := range batch {
		call.Decision, call.Err = c.Take(ctx, call.Request)
	}
}

// A store decides the calls of a batch in order. A call that fails does not affect the others.
func ExampleBatchStore() {
	memory, _ := memorystore.New(memorystore.Config{})
	defer memory.Close()
	var store driver.BatchStore = &counting{Store: memory}
	claim := stint.Claim{Subject: "user:42", Limits: []stint.Limit{stint.PerMinute(1)}, Cost: 1}
	batch := []*driver.Call{
		{Request: stint.Request{Claims: []stint.Claim{claim}}},
		{},
		{Request: stint.Request{Claims: []stint.Claim{claim}}},
	}
	store.TakeBatch(context.Background(), batch)
	for _, call := range batch {
		var mistake *stint.InvalidError
		fmt.Println(call.Decision.Allowed, errors.As(call.Err, &mistake))
	}
	// Output:
	// true false
	// false true
	// false false
}
