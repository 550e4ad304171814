package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/resilience"
)

func TestF18(t *testing.T) {
	fault(t, "F18", "CLUSTERDOWN 2 to 3 s, LOADING, MASTERDOWN",
		"policy; resent only where the reply proves that nothing ran, at most 2 attempts per decision", func(r *report) {
			clusterDown(r)
			loading(r)
			masterDown(r)
		})
}

// unready is a Redis that answers but does not work.
type unready struct {
	name    string
	subject string
	servers []*redistest.Server // those that answer
}

// hold asks while it does not work: the store alone, and a stack.
func (u unready) hold(r *report, s stack, w *witness, plain stint.Store) {
	r.Helper()
	// Each connection may have been lost, which its first call finds out.
	drive(r.Context(), plain, load{Subject: u.subject, Limits: plenty, Calls: 20})
	known, before := w.failed(stint.KindBusy), attempts(r, u.servers)
	const calls = 50
	o := drive(r.Context(), plain, load{Subject: u.subject, Limits: plenty, Calls: calls})
	tried := attempts(r, u.servers) - before
	if o.Failed[stint.KindBusy] != calls {
		r.Errorf("%s: errors %v of the store alone, want %d times busy", u.name, o.Failed, calls)
	}
	if tried < calls || tried > 2*calls {
		r.Errorf("%s: %d attempts for %d calls, want at most 2 each", u.name, tried, calls)
	}
	o = driveUntil(r.Context(), s, load{Subject: u.subject, Limits: plenty, Callers: 20, Pause: 5 * time.Millisecond,
		For: pick(time.Second, 600*time.Millisecond)}, func(*outcome) bool { return w.failed(stint.KindBusy) > known })
	if o.Degraded != o.decisions() || o.Denied > 0 || o.failures() > 0 {
		r.Errorf("%s: %d of %d decisions are degraded, %d denied, errors %v", u.name, o.Degraded, o.decisions(), o.Denied, o.Failed)
	}
	if w.failed(stint.KindBusy) == known {
		r.Errorf("%s: nobody was told that Redis is busy", u.name)
	}
	r.saw("%s: %.2f attempts per call, %d decisions without Redis", u.name, float64(tried)/calls, o.decisions())
}

// clusterDown: a master and its replica are gone, so no node takes anything.
func clusterDown(r *report) {
	r.Helper()
	cluster := redistest.StartCluster(r, redistest.Failover...)
	url := cluster.URL()
	s, w := watchedStack(r, url, resilience.Config{})
	plain := openStore(r, url)
	awaitNormal(r, s)
	dead := cluster.MasterOf(r, "stint:{normal}:")
	replica := cluster.ReplicaOf(r, dead)
	subject := ""
	for n := 0; subject == "" || cluster.MasterOf(r, "stint:{"+subject+"}:") == dead; n++ {
		subject = fmt.Sprint("elsewhere", n)
	}
	alive := slices.DeleteFunc(slices.Clone(cluster.Nodes), func(n *redistest.Server) bool {
		return n == dead || n == replica
	})
	dead.Kill()
	replica.Kill()
	for _, node := range alive {
		testkit.Eventually(r, "the cluster does not do without a third of its slots", func() bool {
			return strings.Contains(node.CLI(r, "CLUSTER", "INFO"), "cluster_state:fail")
		})
	}
	down := time.Now()
	unready{"CLUSTERDOWN", subject, alive}.hold(r, s, w, alone{plain, patience})
	time.Sleep(time.Until(down.Add(pick(2*time.Second, 0))))
	dead.Restart(r)
	replica.Restart(r)
	cluster.AwaitOK(r)
	r.within("normal after", awaitNormal(r, s), time.Second)
	wantTTLs(r, cluster.Nodes...)
}

// loading: Redis was restarted and reads its data, which takes half a minute unless it is told to
// hurry.
func loading(r *report) {
	r.Helper()
	server := redistest.Start(r, "--key-load-delay", "4000", "--loading-process-events-interval-bytes", "1024",
		"--rdbcompression", "no")
	s, w := watchedStack(r, server.URL(), resilience.Config{})
	plain := openStore(r, server.URL())
	awaitNormal(r, s)
	server.CLI(r, "EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'theirs:' .. i, ('x'):rep(1000)) end", "0", "7500")
	server.CLI(r, "SAVE")
	server.Restart(r)
	unready{"LOADING", "busy", []*redistest.Server{server}}.hold(r, s, w, alone{plain, patience})
	server.CLI(r, "CONFIG", "SET", "key-load-delay", "0")
	testkit.Eventually(r, "the data is read",
		func() bool { return !strings.Contains(server.CLI(r, "INFO", "persistence"), "loading:1\r\n") })
	r.within("normal after", awaitNormal(r, s), time.Second)
	wantTTLs(r, server)
}

// masterDown: Redis has become the replica of a server that is not there, and may not answer from
// what it has.
func masterDown(r *report) {
	r.Helper()
	server := redistest.Start(r, "--replica-serve-stale-data", "no")
	s, w := watchedStack(r, server.URL(), resilience.Config{})
	plain := openStore(r, server.URL())
	awaitNormal(r, s)
	server.CLI(r, "REPLICAOF", "127.0.0.1", "1")
	unready{"MASTERDOWN", "busy", []*redistest.Server{server}}.hold(r, s, w, alone{plain, patience})
	server.CLI(r, "REPLICAOF", "NO", "ONE")
	r.within("normal after", awaitNormal(r, s), time.Second)
	wantTTLs(r, server)
}
