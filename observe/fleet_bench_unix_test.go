//go:build unix

package observe_test

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/redisstore"
)

// BenchmarkShare: what it costs to share what ten processes count through a Redis, one of which
// decides 10,000 requests a second: the share of a CPU that all take, with and without sharing, and
// what a process writes.
func BenchmarkShare(b *testing.B) {
	for _, test := range []struct {
		name  string
		share bool
	}{{"alone", false}, {"shared", true}} {
		b.Run(test.name, func(b *testing.B) {
			m := observe.New(observe.Config{Logger: discard})
			defer m.Close()
			g := newGuard(b, newMemory(b), inShadow, m)
			server := redistest.Start(b)
			store, err := redisstore.Open(b.Context(), redisstore.Config{URL: server.URL()})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			all := []*observe.Monitor{m}
			for range 9 {
				all = append(all, newMonitor(b))
			}
			for _, m := range all {
				if test.share {
					defer m.Share(store)()
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			before, wrote, done := cpuSeconds(b), received(b, server), 0
			began := time.Now()
			for tick := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				due := int(time.Since(began).Seconds()*10_000) - done
				ask(b, g, due, get("/trial"))
				done += due
			}
			b.ReportMetric((cpuSeconds(b)-before)/10*100, "cpu%")
			b.ReportMetric(float64(done)/10, "decisions/s")
			b.ReportMetric(float64(received(b, server)-wrote)/10/float64(len(all)), "wire-B/s/process")
		})
	}
}

// received is how many bytes a Redis has received so far, protocol and questions included.
func received(b *testing.B, server *redistest.Server) int64 {
	_, text, _ := strings.Cut(server.CLI(b, "INFO", "stats"), "total_net_input_bytes:")
	text, _, _ = strings.Cut(text, "\r\n")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// cpuSeconds is what the program has used so far.
func cpuSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return (time.Duration(u.Utime.Nano()) + time.Duration(u.Stime.Nano())).Seconds()
}
