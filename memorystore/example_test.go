package memorystore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
)

// The zero Config is ready for use. One store serves any number of limiters.
func ExampleNew() {
	store, _ := memorystore.New(memorystore.Config{MaxBytes: 256 << 20}) // 256 MiB; the default is 1 GiB
	defer store.Close()
	searches, _ := stint.New(store, stint.PerMinute(30))
	logins, _ := stint.New(store, stint.Per(5, 15*time.Minute).WithName("login"))
	for _, lim := range []*stint.Limiter{searches, logins} {
		d, err := lim.Allow(context.Background(), "user:42")
		fmt.Println(d.Allowed, d.Remaining(), err)
	}
	// Output:
	// true 29 <nil>
	// true 4 <nil>
}

// A test moves the clock instead of waiting.
func ExampleConfig_now() {
	now := time.Now()
	store, _ := memorystore.New(memorystore.Config{Now: func() time.Time { return now }})
	defer store.Close()
	lim, _ := stint.New(store, stint.PerMinute(1))
	for range 3 {
		d, _ := lim.Allow(context.Background(), "user:42")
		fmt.Println(d.Allowed, d.RetryAfter)
		now = now.Add(30 * time.Second)
	}
	// Output:
	// true 0s
	// false 30s
	// true 0s
}

// Stats says how full the store is.
func ExampleStore_Stats() {
	store, _ := memorystore.New(memorystore.Config{MaxSubjects: 10_000})
	defer store.Close()
	lim, _ := stint.New(store, stint.PerMinute(10))
	for _, subject := range []string{"user:1", "user:2", "user:2"} {
		_, _ = lim.Allow(context.Background(), subject)
	}
	stats := store.Stats()
	fmt.Println(stats.Subjects, "of", stats.MaxSubjects, "subjects,", stats.Evicted, "evicted")
	// Output:
	// 2 of 10000 subjects, 0 evicted
}
