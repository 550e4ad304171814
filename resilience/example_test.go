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
	redis, err := redisstore.Open(ctx, "redis://localhost:6379/0")
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

// Some parts, put together by hand.
func ExampleNewBatching() {
	redis, err := redisstore.Open(context.Background(), "redis://localhost:6379/0")
	if err != nil {
		log.Fatal(err)
	}
	defer redis.Close()
	breaker := resilience.NewBreaker(redis, resilience.BreakerConfig{Failures: 3})
	defer breaker.Close()
	batching := resilience.NewBatching(breaker, resilience.BatchingConfig{})
	defer batching.Close()
	store := resilience.NewDeadline(batching, 50*time.Millisecond)

	lim, err := stint.New(store, stint.PerMinute(100))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lim.Limits())
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

// slowdowns is an observer that cares about the breaker only.
type slowdowns struct{ resilience.Silent }

func (slowdowns) BreakerChanged(from, to resilience.BreakerState) { fmt.Println(from, "→", to) }

func ExampleObserver() {
	var o resilience.Observer = slowdowns{}
	o.BreakerChanged(resilience.BreakerClosed, resilience.BreakerOpen)
	// Output: closed → open
}
