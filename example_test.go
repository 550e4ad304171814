package stint_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
)

func Example() {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	lim, err := stint.New(store, stint.PerMinute(3), stint.PerDay(1000))
	if err != nil {
		panic(err)
	}
	for range 4 {
		d, err := lim.Allow(context.Background(), "user:42")
		if err != nil {
			panic(err) // the store failed: nothing was decided
		}
		limit := *d.Decisive().Limit
		fmt.Printf("allowed %v, %d of %s left\n", d.Allowed, d.Remaining(), &limit)
	}
	// Output:
	// allowed true, 2 of 3/1m left
	// allowed true, 1 of 3/1m left
	// allowed true, 0 of 3/1m left
	// allowed false, 0 of 3/1m left
}

// In immediate mode a denial is turned into an error that carries the key and when to try again.
func ExampleDecision_Err() {
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	lim, _ := stint.New(store, stint.PerSecond(1))
	call := func() error {
		d, err := lim.Allow(context.Background(), "igdb:api")
		if err != nil {
			return err
		}
		return d.Err()
	}
	fmt.Println(call())
	err := call()
	var denied *stint.DeniedError
	fmt.Println(err, errors.As(err, &denied) && denied.RetryAfter <= time.Second)
	// Output:
	// <nil>
	// rate limit exceeded for key 'igdb:api' true
}

// Wait books the earliest time with room and sleeps until it is due.
func ExampleLimiter_Wait() {
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	lim, _ := stint.New(store, stint.Per(4, 100*time.Millisecond))
	start := time.Now()
	for range 5 {
		if _, err := lim.Wait(context.Background(), "igdb:api"); err != nil {
			panic(err)
		}
	}
	fmt.Println("five calls took at least 100ms:", time.Since(start) >= 100*time.Millisecond)
	// Output:
	// five calls took at least 100ms: true
}

// The true cost of some requests is known only afterwards: charge an estimate, then settle.
func ExampleLimiter_Settle() {
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	ctx := context.Background()
	tokens, _ := stint.New(store, stint.PerMinute(10_000))
	d, _ := tokens.AllowN(ctx, "team:7", 500)
	_, _ = tokens.Settle(ctx, d, 320)
	now, _ := tokens.Peek(ctx, "team:7")
	fmt.Println(now.Usages()[0].Used, "used,", now.Remaining(), "left")
	// Output:
	// 320 used, 9680 left
}

// One request may concern several subjects, each with limits and a cost of its own. All are
// charged, or none.
func ExampleLimiter_Take() {
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	lim, _ := stint.New(store, stint.PerMinute(100))
	d, err := lim.Take(context.Background(), stint.Request{
		Claim: stint.Claim{Subject: "user:42", Cost: 10},
		And: []stint.Claim{
			{Subject: "route:/export", Limits: []stint.Limit{stint.PerSecond(5)}, Cost: 1},
		},
		ID: "order-7781", // retried requests are charged once
	})
	if err != nil {
		panic(err)
	}
	for _, s := range d.States() {
		fmt.Println(s.Limit, "used", s.Used)
	}
	// Output:
	// 100/1m used 10
	// 5/1s used 1
}

// Hold keeps a place while something slow runs.
func ExampleLimiter_Hold() {
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	ctx := context.Background()
	lim, _ := stint.New(store, stint.AtOnce(1, time.Minute))
	first, _ := lim.Allow(ctx, "report:7")
	second, _ := lim.Allow(ctx, "report:7")
	fmt.Println(first.Allowed, second.Allowed)
	_, release := lim.Hold(ctx, first)
	_ = release()
	third, _ := lim.Allow(ctx, "report:7")
	fmt.Println(third.Allowed)
	// Output:
	// true false
	// true
}

// Wrong: a limiter keeps nothing itself, its store does. A new store for every request starts from
// nothing, and so admits everybody.
func ExampleNew_wrong() {
	handle := func() bool {
		store, _ := memorystore.New(memorystore.Config{}) // wrong: make one and keep it
		defer store.Close()
		lim, _ := stint.New(store, stint.PerMinute(1))
		d, _ := lim.Allow(context.Background(), "user:42")
		return d.Allowed
	}
	fmt.Println(handle(), handle(), handle())
	// Output:
	// true true true
}
