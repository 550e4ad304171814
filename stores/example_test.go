package stores_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/stores"
)

// One call to a store for production. REDIS_URL is something like redis://localhost:6379.
func ExampleOpen() {
	ctx := context.Background()
	store, err := stores.Open(ctx, os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err) // a mistake in the URL
	}
	defer store.Close()
	lim, _ := stint.New(store, stint.PerMinute(100))
	d, err := lim.Allow(ctx, "user:42")
	fmt.Println(d.Allowed, err) // also if Redis is down or slow: then d.Degraded is true
	// Output:
	// true <nil>
}

// A mistake in the URL panics at the start of the program; a Redis that is away does not.
func ExampleMustOpen() {
	store := stores.MustOpen(context.Background(), "memory")
	defer store.Close()
	defer func() { fmt.Println(recover()) }()
	stores.MustOpen(context.Background(), "")
	// Output:
	// stores: MustOpen: stint: invalid: no store URL; want "memory", or a URL such as redis://localhost:6379
}

// Redis is away. The limits hold in this process until it is back; Ping says that it is not.
func ExampleOpen_away() {
	ctx := context.Background()
	store, err := stores.Config{
		Resilience: resilience.Config{Instances: 1, Logger: slog.New(slog.DiscardHandler)},
	}.Open(ctx, "redis://127.0.0.1:1")
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	lim, _ := stint.New(store, stint.PerMinute(1))
	for range 2 {
		d, err := lim.Allow(ctx, "user:42")
		fmt.Println(d.Allowed, d.Degraded, err)
	}
	fmt.Println(store.Ping(ctx) != nil)
	// Output:
	// true true <nil>
	// false true <nil>
	// true
}

// Settings beyond the URL: 64 MiB in memory, or 50 ms for a decision of Redis.
func ExampleConfig_Open() {
	settings := stores.Config{
		Memory:     memorystore.Config{MaxBytes: 64 << 20},
		Resilience: resilience.Config{Failure: stint.FailurePolicy{Budget: 50 * time.Millisecond}},
	}
	store, err := settings.Open(context.Background(), "memory")
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	fmt.Println(store.Ping(context.Background()))
	// Output:
	// <nil>
}
