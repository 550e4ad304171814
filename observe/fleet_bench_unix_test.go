//go:build unix

package observe_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stint-limiter/stint/observe"
)

// BenchmarkShare: what it costs to share what ten processes count, one of which decides 10,000
// requests a second: the share of a CPU that all take, with and without sharing.
func BenchmarkShare(b *testing.B) {
	for _, test := range []struct {
		name  string
		share bool
	}{{"alone", false}, {"shared", true}} {
		b.Run(test.name, func(b *testing.B) {
			m := observe.New(observe.Config{Logger: discard})
			defer m.Close()
			g := newGuard(b, newMemory(b), inShadow, m)
			store := newMemory(b)
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
			before, done := cpuSeconds(b), 0
			for tick := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				ask(b, g, 100, get("/trial"))
				done += 100
			}
			b.ReportMetric((cpuSeconds(b)-before)/10*100, "cpu%")
			b.ReportMetric(float64(done)/10, "decisions/s")
		})
	}
}

// cpuSeconds is what the program has used so far.
func cpuSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return (time.Duration(u.Utime.Nano()) + time.Duration(u.Stime.Nano())).Seconds()
}
