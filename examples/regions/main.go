// Command regions runs one of two regions. The regions share one limit, 1,000 requests per minute,
// in a Redis server that is 80 ms away from both. The limit is leased: a region takes units in
// blocks, and decides in memory.
//
//	examples/regions/run.sh
//
// The script starts a Redis server and two regions, and prints:
//
//	europe: 632 of 663 requests allowed, half of the decisions within 6µs
//	america: 368 of 469 requests allowed, half of the decisions within 5µs
//	together: 1000 of 1000
//
// Together, the regions never allow more than 1,000 requests, because each unit is leased to only
// one region.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/stores"
)

func main() {
	name, redis := os.Args[1], os.Args[2]
	ctx := context.Background()
	failure := stint.FailurePolicy{
		Mode:   stint.FailDeny,         // without Redis, allow only units that are already leased
		Budget: 300 * time.Millisecond, // more than a call to Redis takes; the default is 15 ms
	}
	store, err := stores.Config{Resilience: resilience.Config{Failure: failure}}.Open(ctx, "redis://"+distant(redis))
	check(err)
	defer store.Close() // gives back the rest of the last block
	lim, err := stint.New(store, stint.PerMinute(1000).WithLease())
	check(err)

	allowed, took := 0, []time.Duration{}
	tick := time.Tick(3 * time.Millisecond)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); <-tick {
		start := time.Now()
		d, err := lim.Allow(ctx, "tenant:42")
		check(err)
		if took = append(took, time.Since(start)); d.Allowed {
			allowed++
		}
	}
	slices.Sort(took)
	fmt.Printf("%s: %d of %d requests allowed, half of the decisions within %v\n",
		name, allowed, len(took), took[len(took)/2].Round(time.Microsecond))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
