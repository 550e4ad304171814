package memorystore_test

import (
	"testing"

	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/storetest"
)

func open(t *testing.T) storetest.Harness {
	clock := &storetest.Clock{}
	s, err := memorystore.New(memorystore.Config{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return storetest.Harness{Store: s, Clock: clock, Disturbances: map[string]func(testing.TB){
		"what has expired is swept": func(testing.TB) { s.Sweep() },
	}}
}

func TestContract(t *testing.T) { storetest.Run(t, open) }

func TestModel(t *testing.T) { storetest.Model(t, open) }
