package simulate_test

import (
	"testing"

	"github.com/stint-limiter/stint/internal/simulate/simulatetest"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/storetest"
)

// TestEqual: a replay decides like live middleware.
func TestEqual(t *testing.T) {
	var store *memorystore.Store
	end := func() {
		if store != nil {
			_ = store.Close()
		}
	}
	t.Cleanup(func() { end() })
	simulatetest.Equal(t, func(t *testing.T) storetest.Harness {
		end() // the one before
		clock := &storetest.Clock{}
		var err error
		if store, err = memorystore.New(memorystore.Config{Now: clock.Now}); err != nil {
			t.Fatal(err)
		}
		return storetest.Harness{Store: store, Clock: clock}
	})
}
