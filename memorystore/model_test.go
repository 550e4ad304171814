package memorystore_test

import (
	"testing"

	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/storetest"
)

// openReal opens a store on the real clock.
func openReal(t *testing.T) storetest.Harness {
	s, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return storetest.Harness{Store: s}
}

func TestContractInRealTime(t *testing.T) { storetest.Run(t, openReal) }

func TestLinearizable(t *testing.T) {
	h := openReal(t)
	for range 5 {
		storetest.Linearizable(t, h.Store)
	}
}
