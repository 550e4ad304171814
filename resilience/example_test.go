package resilience_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// All parts over one Redis. Package stores does this in one call.
func Example() {
	ctx := context.Background()
	redis, err := redisstore.Open(ctx, redisstore.Config{URL: os.Getenv("REDIS_URL")})
	if err != nil {
		log.Fatal(err)
	}
	defer redis.Close()
	store, err := resilience.New(redis, resilience.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	lim, _ := stint.New(store, stint.PerMinute(100))
	d, err := lim.Allow(ctx, "user:42")
	fmt.Println(d.Allowed, err) // also if Redis is down or slow: then d.Degraded is true
	// Output:
	// true <nil>
}

// down stands for a store that cannot be reached.
type down struct{ driver.BatchStore }

func (down) TakeBatch(_ context.Context, batch []*driver.Call) {
	for _, call := range batch {
		call.Err = &stint.StoreError{Op: "take", Err: context.DeadlineExceeded}
	}
}

// While the store cannot be reached, limits go on in the memory of this process.
func ExampleNew() {
	store, err := resilience.New(down{}, resilience.Config{Instances: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	lim, _ := stint.New(store, stint.PerMinute(2))
	for range 3 {
		d, err := lim.Allow(context.Background(), "user:42")
		fmt.Println(d.Allowed, d.Degraded, err)
	}
	// Output:
	// true true <nil>
	// true true <nil>
	// false true <nil>
}

// Sign-ins are denied rather than let through while the store is down.
func ExampleNew_failurePolicy() {
	store, err := resilience.New(down{}, resilience.Config{Instances: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	lim, _ := stint.New(store, stint.Per(5, 15*time.Minute),
		stint.WithFailure(stint.FailurePolicy{Mode: stint.FailDeny, Budget: 50 * time.Millisecond}))
	d, err := lim.Allow(context.Background(), "user:42")
	fmt.Println(d.Allowed, d.Unavailable, err)
	fmt.Println(d.Err())
	// Output:
	// false true <nil>
	// denied for key 'user:42': the rate limiter is unavailable
}

// Parts can be switched off: here every decision is the store's own, or an error.
func ExampleNew_withoutParts() {
	store, err := resilience.New(down{}, resilience.Config{NoDenyCache: true, NoLeases: true,
		Failure: stint.FailurePolicy{Mode: stint.FailError}})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	lim, _ := stint.New(store, stint.PerMinute(2))
	_, err = lim.Allow(context.Background(), "user:42")
	fmt.Println(err)
	// Output:
	// stint: take: context deadline exceeded
}

// openings is an observer that handles changes of the breaker and ignores other events.
type openings struct{}

func (openings) Observe(_ context.Context, event stint.Event) {
	if e, ok := event.(*resilience.BreakerChange); ok {
		fmt.Println(e.From, "→", e.To)
	}
}

// The breaker opens after two failures in a row.
func ExampleBreakerChange() {
	store, err := resilience.New(down{}, resilience.Config{
		BreakerFailures: 2, Failure: stint.FailurePolicy{Mode: stint.FailError}, Observer: openings{},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	lim, _ := stint.New(store, stint.PerMinute(100))
	for range 2 {
		_, _ = lim.Allow(context.Background(), "user:42")
	}
	// Output:
	// closed → open
}
