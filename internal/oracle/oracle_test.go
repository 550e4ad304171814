package oracle_test

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/oracle"
	"github.com/stint-limiter/stint/storetest"
)

func open(*testing.T) storetest.Harness {
	clock := &storetest.Clock{}
	return storetest.Harness{Store: oracle.New(func() int64 { return clock.Now().UnixMicro() }), Clock: clock}
}

func TestContract(t *testing.T) { storetest.Run(t, open) }

// TestModel runs the reference against itself, so only the true log of events can find an error.
func TestModel(t *testing.T) { storetest.Model(t, open) }

func TestLinearizable(t *testing.T) {
	storetest.Linearizable(t, oracle.New(func() int64 { return time.Now().UnixMicro() }))
}
