package stores_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/stores"
)

// maxConnections is how many connections a store has to a server.
const maxConnections = 8

// TestConnectionsInStalls: servers that stop for 50 ms every 150 ms, under 64 callers, see no more
// connections than others do, and none is closed.
func TestConnectionsInStalls(t *testing.T) {
	single, sentinel, cluster := redistest.Start(t), redistest.StartSentinel(t), redistest.StartCluster(t)
	for name, test := range map[string]struct {
		url     string
		servers []*redistest.Server
	}{
		"single": {single.URL(), []*redistest.Server{single}},
		"Sentinel": {"redis://" + sentinel.Sentinels[0].Addr() + "?master_set=" + sentinel.MasterName,
			[]*redistest.Server{sentinel.Master}},
		"Cluster": {"redis://" + cluster.Nodes[0].Addr() + "?addr=" + cluster.Nodes[1].Addr(), cluster.Nodes},
	} {
		t.Run(name, func(t *testing.T) {
			store := open(t, stores.Config{Resilience: resilience.Config{Logger: discard}}, test.url)
			lim, err := stint.New(store, stint.PerHour(1e6))
			if err != nil {
				t.Fatal(err)
			}
			before := make([]int, len(test.servers))
			for i, server := range test.servers {
				before[i] = accepted(t, server)
			}
			over := make(chan struct{})
			var callers sync.WaitGroup
			for i := range 64 {
				callers.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-over:
							return
						default:
						}
						if _, err := lim.Allow(t.Context(), fmt.Sprint("user:", i, ":", n%100)); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			for range 10 {
				time.Sleep(100 * time.Millisecond)
				for _, server := range test.servers {
					server.Pause(t)
				}
				time.Sleep(50 * time.Millisecond)
				for _, server := range test.servers {
					server.Resume(t)
				}
			}
			close(over)
			callers.Wait()
			for i, server := range test.servers {
				open := strings.Count(server.CLI(t, "CLIENT", "LIST"), " name=stint ")
				if made := accepted(t, server) - before[i] - 1; open > maxConnections || made > maxConnections {
					t.Errorf("%s has %d connections and has accepted %d, want at most %d",
						server.Addr(), open, made, maxConnections)
				}
			}
		})
	}
}

// accepted returns how many connections a server has accepted so far, this one included.
func accepted(t *testing.T, server *redistest.Server) (n int) {
	t.Helper()
	_, text, _ := strings.Cut(server.CLI(t, "INFO", "stats"), "total_connections_received:")
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
