package faults

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/resilience"
)

func TestF45(t *testing.T) {
	fault(t, "F45", "a second outage within 10 s of the first; no request afterwards",
		"logged like the first, and every 10 s while it lasts; the process notices without a request that Redis is back", func(r *report) {
			server := redistest.Start(t)
			monitor := observe.New(observe.Config{Logger: quiet})
			defer monitor.Close()
			var log journal
			s := newStack(t, server.URL(), resilience.Config{Logger: log.logger(), Instances: 1, Observer: monitor})
			awaitNormal(r, s)
			lost := func() int { return log.count("level=ERROR", "the store cannot be asked") }
			still := func() int { return log.count("level=ERROR", "still cannot be asked") }
			back := func() int { return log.count("level=INFO", "the store can be asked again") }
			for n, lasts := range []time.Duration{0, 0, pick(25*time.Second, 0)} {
				testkit.Eventually(r, "no outage lasts", func() bool { return lost() == back() })
				known, reminded := lost(), still()
				stop(r, server)
				testkit.Eventually(r, "the breaker opens", func() bool {
					take(r, s, "any", plenty...)
					return s.Breaker() != "closed"
				})
				if monitor.Status(0).Store.Up {
					r.Error("the store is said to be up while it is stopped")
				}
				time.Sleep(lasts)
				testkit.Eventually(r, "the log says that the store is lost", func() bool { return lost() > known })
				if known+1 != lost() || still()-reminded != int(lasts/(10*time.Second)) {
					r.Errorf("outage %d: the log has %d lines that the store is lost, %d that it still is; want %d and %d:\n%s",
						n, lost(), still()-reminded, known+1, lasts/(10*time.Second), &log)
				}
				server.Resume(t)
				up := testkit.Eventually(r, "the store is up", func() bool {
					return monitor.Status(0).Store.Up && s.Breaker() == "closed" && back() == known+1
				})
				r.within("up without a request after", up, 3*time.Second)
			}
			r.saw("3 outages, %d lines when lost, %d while it lasted, %d when back", lost(), still(), back())
			wantTTLs(r, server)
		})
}
