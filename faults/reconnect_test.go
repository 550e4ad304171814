package faults

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

func TestF21(t *testing.T) {
	fault(t, "F21", "500 connections lost at once", "dials capped and jittered", func(r *report) {
		server := redistest.Start(t, "--maxclients", "4000")
		proxy := redistest.StartProxy(t, server.Addr())
		var dials dialLog
		stacks := make([]stack, pick(125, 20)) // of up to eight connections each
		for i := range stacks {
			stacks[i] = newStackOf(t, redisstore.Config{URL: proxy.URL(), AdjustClient: dials.join}, resilience.Config{})
		}
		calls := load{Limits: plenty, Callers: 4, Pause: 40 * time.Millisecond, For: time.Second}
		flood := func() outcome {
			return together(len(stacks), func(i int) outcome { return drive(t.Context(), stacks[i], calls) })
		}
		flood()
		connections := proxy.Open()

		var group sync.WaitGroup
		var o outcome
		calls.For = pick(6*time.Second, 3*time.Second)
		group.Go(func() { o = flood() })
		time.Sleep(100 * time.Millisecond)
		cut := time.Now()
		proxy.Cut()
		time.Sleep(pick(2*time.Second, time.Second))
		restored := time.Now()
		proxy.Restore()
		group.Wait()
		for _, s := range stacks {
			awaitNormal(r, s)
		}
		if o.failures() > 0 {
			t.Errorf("errors %v", o.Failed)
		}
		connections = max(connections, proxy.Open()) // not all were needed before, if the machine is busy

		down, after := dials.between(cut, restored), dials.between(restored, restored.Add(3*time.Second))
		each := float64(len(down)) / restored.Sub(cut).Seconds() / float64(len(stacks))
		if each > 20 {
			t.Errorf("while cut %.1f dials a second by each process, want at most 20", each)
		}
		if len(after) > 2*connections {
			t.Errorf("%d dials for %d connections in the 3 s after", len(after), connections)
		}
		most := busiest(after, 50*time.Millisecond)
		if *measure && most > len(after)/2 {
			t.Errorf("%d of %d dials within 50 ms", most, len(after))
		}
		r.saw("%d connections of %d processes: while cut %.1f dials a second by each; then %d, at most %d of them within 50 ms",
			connections, len(stacks), each, len(after), most)
		wantTTLs(r, server)
	})
}

// dialLog is when connections were attempted, in microseconds since the Unix epoch.
type dialLog struct {
	mu sync.Mutex
	at []int64
}

// join has the attempts of a client to connect noted.
func (l *dialLog) join(c *rueidis.ClientOption) {
	c.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		l.mu.Lock()
		l.at = append(l.at, time.Now().UnixMicro())
		l.mu.Unlock()
		return dialer.DialContext(ctx, "tcp", addr)
	}
}

func (l *dialLog) between(from, to time.Time) (found []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.at { // in order, because each is taken under the lock
		if from.UnixMicro() <= at && at < to.UnixMicro() {
			found = append(found, at)
		}
	}
	return found
}
