package faults

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/resilience"
)

func TestF21(t *testing.T) {
	fault(t, "F21", "500 connections lost at once", "dials capped and jittered", func(r *report) {
		server := redistest.Start(t, "--maxclients", "4000")
		proxy := redistest.StartProxy(t, server.Addr())
		var dials dialLog
		stacks := make([]*stack, pick(125, 20)) // of up to eight connections each
		for i := range stacks {
			stacks[i], _ = watchedStack(t, proxy.URL(), resilience.Config{}, dials.join)
		}
		calls := load{Limits: plenty, Callers: 4, Pause: 40 * time.Millisecond, For: time.Second}
		flood(r, stacks, calls)
		connections := proxy.Open()

		var group sync.WaitGroup
		var o outcome
		calls.For = pick(6*time.Second, 3*time.Second)
		group.Go(func() { o = flood(r, stacks, calls) })
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
		most := busiestIn(after, 50*time.Millisecond)
		if *measure && most > len(after)/2 {
			t.Errorf("%d of %d dials within 50 ms", most, len(after))
		}
		r.saw("%d connections of %d processes: while cut %.1f dials a second by each; then %d, at most %d of them within 50 ms",
			connections, len(stacks), each, len(after), most)
		farAway(r, server)
		wantTTLs(r, server)
	})
}

// farAway loses connections to a server that takes longer to connect to than any decision has: a
// round trip for TCP, another for Redis.
func farAway(r *report, server *redistest.Server) {
	r.Helper()
	const roundTrip = 10 * time.Millisecond
	proxy := redistest.StartProxy(r, server.Addr())
	proxy.SetLatency(roundTrip, 0)
	dials := dialLog{takes: roundTrip}
	s, _ := watchedStack(r, proxy.URL(), resilience.Config{}, dials.join)
	calls := load{Limits: plenty, Callers: 50, Pause: 5 * time.Millisecond,
		For: pick(2*time.Second, 500*time.Millisecond)}
	drive(r.Context(), s, calls)
	connections := proxy.Open()
	proxy.Cut()
	time.Sleep(300 * time.Millisecond)
	restored := time.Now()
	proxy.Restore()
	var o outcome
	var group sync.WaitGroup
	group.Go(func() { o = drive(r.Context(), s, calls) })
	normal := awaitNormal(r, s)
	group.Wait()
	after := dials.between(restored, time.Now())
	if len(after) > 3*max(connections, 2) {
		r.Errorf("10 ms away: %d dials for %d connections afterwards", len(after), connections)
	}
	r.within("10 ms away: normal after", normal, time.Second)
	r.saw("%d dials for %d connections, %d of %d decisions without Redis", len(after), connections, o.Degraded, o.decisions())
}

// dialLog is when connections were attempted.
type dialLog struct {
	takes time.Duration // how much longer than it would on this machine
	mu    sync.Mutex
	at    []time.Time
}

// join has the attempts of a client to connect noted.
func (l *dialLog) join(c *rueidis.ClientOption) {
	c.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		l.mu.Lock()
		l.at = append(l.at, time.Now())
		l.mu.Unlock()
		select {
		case <-time.After(l.takes):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return dialer.DialContext(ctx, "tcp", addr)
	}
}

func (l *dialLog) between(from, to time.Time) (found []time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.at {
		if !at.Before(from) && at.Before(to) {
			found = append(found, at)
		}
	}
	slices.SortFunc(found, time.Time.Compare)
	return found
}

func busiestIn(at []time.Time, window time.Duration) (most int) {
	from := 0
	for i := range at {
		for at[i].Sub(at[from]) >= window {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}
