package resilience_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// All parts over one Redis.
func Example() {
	ctx := context.Background()
	redis, err := redisstore.Open(ctx, redisstore.Config{URL: "redis://localhost:6379/0"})
	if err != nil {
		log.Fatal(err)
	}
	defer redis.Close()
	store, err := resilience.New(redis, resilience.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	lim, err := stint.New(store, stint.PerMinute(100))
	if err != nil {
		log.Fatal(err)
	}
	d, err := lim.Allow(ctx, "user:42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Allowed, d.Degraded)
}

// Parts can be switched off: here every decision is the store's own, or an error.
func ExampleNew_withoutParts() {
	redis, err := redisstore.Open(context.Background(), redisstore.Config{URL: "redis://localhost:6379/0"})
	if err != nil {
		log.Fatal(err)
	}
	defer redis.Close()
	store, err := resilience.New(redis, resilience.Config{NoDenyCache: true, NoLeases: true, NoFallback: true})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	fmt.Println(store.Breaker())
}

// Sign-ins are refused rather than let through when Redis is away, and may take longer.
func ExampleNew_failurePolicy() {
	var store *resilience.Stack // as above
	lim, err := stint.New(store, stint.Per(5, 15*time.Minute),
		stint.WithFailure(stint.FailurePolicy{Mode: stint.FailDeny, Budget: 50 * time.Millisecond}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lim.Limits())
	// Output: [5/15m]
}

// openings is an observer that cares about the breaker only.
type openings struct{}

func (openings) Observe(_ context.Context, event any) {
	if e, ok := event.(*resilience.BreakerChange); ok {
		fmt.Println(e.From, "→", e.To)
	}
}

func ExampleBreakerChange() {
	var o stint.Observer = openings{}
	o.Observe(context.Background(), &resilience.BreakerChange{From: "closed", To: "open"})
	// Output: closed → open
}
