package redisstore_test

import (
	"testing"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/simulate/simulatetest"
	"github.com/stint-limiter/stint/storetest"
)

// TestReplay: a replay of a log decides as middleware over this store did.
func TestReplay(t *testing.T) {
	server := redistest.StartFakeTime(t)
	s, c := open(t, server.URL()), client(t, server.URL())
	simulatetest.Equal(t, func(t *testing.T) storetest.Harness {
		flush(t, c)
		return clocked(t, s, c, server)
	})
}
