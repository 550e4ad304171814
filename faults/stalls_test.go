package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/resilience"
)

func TestStalls(t *testing.T) {
	const promise = "in every run Redis counts exactly what was admitted, as it was settled; at most 8 connections are made to a server"
	fault(t, "stalls", "Redis stops for 50 ms every 150 ms, 64 callers take, settle and refund", promise, func(r *report) {
		single, cluster := redistest.Start(t), redistest.StartCluster(t)
		for _, test := range []struct {
			name, url string
			servers   []*redistest.Server
		}{{"single", single.URL(), []*redistest.Server{single}}, {"cluster", urlOf(cluster.Addrs()), cluster.Nodes}} {
			var all stalled
			runs := pick(5, 1)
			for run := range runs {
				all.add(callInStalls(r, test.url, fmt.Sprint(test.name, run), test.servers))
			}
			r.saw("%s: %d runs, %d decisions, %d without Redis, %d settled; all counted exactly; at most %d connections",
				test.name, runs, all.decisions, all.degraded, all.settled, all.connections)
		}
		wantTTLs(r, append(cluster.Nodes, single)...)
	})
}

// stalled is what became of the callers of a server that stalls.
type stalled struct{ decisions, degraded, settled, connections int64 }

func (s *stalled) add(other stalled) {
	s.decisions += other.decisions
	s.degraded += other.degraded
	s.settled += other.settled
	s.connections = max(s.connections, other.connections)
}

// callInStalls lets callers take, settle and refund while servers stall, and checks what these
// count afterwards.
func callInStalls(r *report, url, name string, servers []*redistest.Server) stalled {
	r.Helper()
	const callers, subjects, most = 64, 10, 8
	limit := stint.PerHour(10_000_000)
	subject := func(i int) string { return fmt.Sprint(name, "-", i%subjects) }
	before := make([]int64, len(servers))
	for i, server := range servers {
		before[i] = accepted(r, server)
	}
	s := newStack(r, url, resilience.Config{})
	var want [subjects]atomic.Int64
	var decisions, degraded, settled atomic.Int64
	over := make(chan struct{})
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				q := request(subject(n), limit)
				q.Claims[0].Cost = 10
				d, err := s.Take(r.Context(), q)
				if err != nil || !d.Allowed {
					r.Errorf("%s: allowed %v, %v", name, d.Allowed, err)
					return
				}
				decisions.Add(1)
				if d.Degraded {
					degraded.Add(1)
				}
				cost := int64(10)
				if i%2 == 0 {
					cost = rand.Int64N(15) // a refund, less, the same or more
					settled.Add(1)
					done, err := s.Amend(r.Context(), d.Charge, stint.Amendment{Kind: stint.AmendSettle, Cost: cost})
					if err != nil || !done.Changed {
						r.Errorf("%s: settled at %d: %+v, %v", name, cost, done, err)
						return
					}
				}
				want[n%subjects].Add(cost)
			}
		})
	}
	for range 10 {
		time.Sleep(100 * time.Millisecond)
		for _, server := range servers {
			server.Pause(r)
		}
		time.Sleep(50 * time.Millisecond)
		for _, server := range servers {
			server.Resume(r)
		}
	}
	close(over)
	group.Wait()
	out := stalled{decisions.Load(), degraded.Load(), settled.Load(), 0}
	for i, server := range servers {
		made := accepted(r, server) - before[i] - 1 // without the one that asks
		if out.connections = max(out.connections, made); made > most {
			r.Errorf("%s: %d connections were made to %s, want at most %d", name, made, server.Addr(), most)
		}
	}
	plain := openStore(r, url)
	counted := func(i int) error {
		if used, ok := look(plain, subject(i), limit); !ok || used != want[i].Load() {
			return fmt.Errorf("%s: %d used, want %d", subject(i), used, want[i].Load())
		}
		return nil
	}
	for i := range subjects {
		testkit.EventuallyNil(r, "Redis counts what was admitted", func() error { return counted(i) })
	}
	if err := s.Close(); err != nil {
		r.Error(err)
	}
	for i := range subjects {
		if err := counted(i); err != nil {
			r.Error("when all is closed: ", err)
		}
	}
	return out
}

// accepted is how many connections a server has accepted so far, this one included.
func accepted(r *report, server *redistest.Server) (n int64) {
	r.Helper()
	_, text, _ := strings.Cut(server.CLI(r, "INFO", "stats"), "total_connections_received:")
	if _, err := fmt.Sscan(text, &n); err != nil {
		r.Fatal(err)
	}
	return n
}
