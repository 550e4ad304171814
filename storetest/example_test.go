package storetest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/storetest"
)

// open returns a harness for Run and Model, here with a store in memory:
//
//	func TestContract(t *testing.T) { storetest.Run(t, open) }
//	func TestModel(t *testing.T)    { storetest.Model(t, open) }
func open(*testing.T) storetest.Harness {
	clock := &storetest.Clock{}
	store, _ := memorystore.New(memorystore.Config{Now: clock.Now})
	return storetest.Harness{Store: store, Clock: clock}
}

// A harness contains a store under test and its clock, which only the test moves.
func ExampleHarness() {
	h := open(nil)
	lim, _ := stint.New(h.Store, stint.PerHour(1))
	for range 3 {
		d, _ := lim.Allow(context.Background(), "user:42")
		fmt.Println(d.Allowed, d.RetryAfter)
		h.Clock.Advance(30 * time.Minute)
	}
	// Output:
	// true 0s
	// false 30m0s
	// true 0s
}
