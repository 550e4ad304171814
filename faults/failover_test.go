package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/resilience"
)

// nodeTimeout is the cluster-node-timeout of [redistest.Failover].
const nodeTimeout = time.Second

func TestF5(t *testing.T) {
	fault(t, "F5", "failover that loses acknowledged writes (cut the replication link, write, kill the master)",
		"≤ A + C in any window, recovery ≤ cluster-node-timeout + 2 s, no restart needed", func(r *report) {
			const limit, window = 200, time.Hour
			cluster := redistest.StartCluster(t, redistest.Failover...)
			s := newStack(t, cluster.URL(), resilience.Config{
				Failure: stint.FailurePolicy{Mode: stint.FailDeny, Budget: time.Second}})
			limits := []stint.Limit{stint.Per(limit, window)}
			usedUp := func() bool { used, _ := look(s, "shared", limits...); return used == limit }
			answers := func() bool { _, ok := look(s, "shared", limits...); return ok }

			// All of the limit is used while the replica is cut off: that is lost.
			var stop func() outcome
			var killed time.Time
			failover := cluster.LossyFailover(t, "stint:{shared}:limits", func() {
				stop = driving(t.Context(), s, load{Limits: limits, Callers: 8, Pause: time.Millisecond})
				testkit.Eventually(r, "the limit is used up", usedUp)
				killed = time.Now()
			})
			testkit.Eventually(r, "a decision of the store", answers)
			recovery := time.Since(killed)
			testkit.Eventually(r, "the limit is used up again", usedUp)
			o := stop()
			if o.failures() > 0 || o.Degraded == 0 {
				r.Errorf("errors %v and %d degraded decisions; want a failover that was decided by the policy", o.Failed, o.Degraded)
			}
			most := o.surely(window)
			if most > 2*limit {
				r.Errorf("%d admitted in a window; want at most %d", most, 2*limit)
			}
			r.saw("%d admitted in a window, A + C = %d", most, 2*limit)
			r.saw("the cluster's own failover %s", short(failover))
			r.within("recovery after", recovery, nodeTimeout+2*time.Second)
			wantTTLs(r, cluster.Nodes...)
		})
}

func TestF16(t *testing.T) {
	fault(t, "F16", "READONLY (and `ERR READONLY` from a proxy) after a demotion", "connection dropped, healthy ≤ 1 s", func(r *report) {
		old, next := redistest.Start(t), redistest.Start(t)
		address := redistest.StartProxy(t, old.Addr())
		seen := newWitness()
		s := newStack(t, address.URL(), resilience.Config{
			Failure: stint.FailurePolicy{Mode: stint.FailDeny, Budget: patience}, Observer: seen})
		limits := []stint.Limit{stint.PerHour(1_000_000)}
		take(r, s, "shared", limits...)

		stop := driving(t.Context(), s, load{Limits: limits, Callers: 8, Pause: time.Millisecond})
		testkit.Eventually(r, "decisions", func() bool { used, _ := look(s, "shared", limits...); return used > 100 })

		// The address has moved on; connections that are there lead to what is a replica now.
		address.SetTarget(next.Addr())
		host, port, _ := strings.Cut(next.Addr(), ":")
		demoted := time.Now()
		old.CLI(t, "REPLICAOF", host, port)
		testkit.Eventually(r, "READONLY", func() bool { return seen.failed(stint.KindReadOnly) > 0 })
		testkit.Eventually(r, "decisions of the new master",
			func() bool { return take(r, s, "shared", limits...).Allowed })
		healthy := time.Since(demoted)
		testkit.Eventually(r, "no connection is left to the old one", func() bool {
			return !strings.Contains(old.CLI(t, "CLIENT", "LIST"), "name=stint")
		})
		o := stop()
		if o.failures() > 0 {
			r.Errorf("errors %v, want the policy", o.Failed)
		}
		if next.CLI(t, "EXISTS", "stint:{shared}:limits") != "1" {
			r.Error("the new master was not asked")
		}
		r.saw("%d of %d decisions degraded", o.Degraded, o.decisions())
		r.within("healthy after", healthy, time.Second)
		wantTTLs(r, old, next)
	})
}
