package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
)

// A connection takes as long as it takes, not as long as the callers who need it have.
func TestConnectionsOutlastTheirCallers(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr())
	s := open(t, proxy.URL())
	take := func(budget time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), budget)
		defer cancel()
		_, err := s.Take(ctx, unit("far", stint.PerHour(1000)))
		return err
	}
	proxy.SetLatency(100*time.Millisecond, 0)
	proxy.Cut()
	proxy.Restore()
	dials := proxy.Dials()
	for range 20 {
		if err := take(30 * time.Millisecond); err == nil {
			t.Fatal("answered before the round trip was over")
		}
	}
	if n := proxy.Dials() - dials; n > 8 { // there are at most four connections
		t.Errorf("%d connections were begun by 20 calls", n)
	}
	if err := take(time.Minute); err != nil {
		t.Error(err)
	}
}

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
