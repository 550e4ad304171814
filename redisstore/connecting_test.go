package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
)

// Nobody waits for a connection that others are making for longer than they want to.
func TestNobodyWaitsForTheConnectionOfOthers(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr())
	s := open(t, proxy.URL())
	proxy.SetLatency(time.Hour, 0)
	proxy.Cut()
	proxy.Restore()
	long, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_ = s.Ping(long) // finds that the connection was lost
		ended <- s.Ping(long)
	}()
	for range 10 {
		time.Sleep(20 * time.Millisecond)
		start := time.Now()
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := s.Take(short, unit("near", stint.PerHour(1000)))
		cancel()
		if took := time.Since(start); err == nil || took > time.Minute {
			t.Fatalf("answered after %v: %v", took, err)
		}
	}
	proxy.SetLatency(0, 0)
	<-ended
}
