package faults

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/resilience"
)

// skew is by how much admissions that were close together may seem apart: callers note
// when they heard, not when it was decided.
const skew = 100 * time.Millisecond

func TestF2(t *testing.T) {
	fault(t, "F2", "Redis killed, restarted empty, 3 processes",
		"policy applied, no panic, normal ≤ 1 s after it answers PING; ≤ A + C + I·ceil(L/I) admitted in any window under `local`, ≤ A + C under `deny`",
		func(r *report) {
			const processes = 3
			window := pick(2*time.Second, time.Second)
			limit := stint.Per(31, window)
			modes := []stint.FailureMode{stint.FailLocal, stint.FailDeny}
			bounds := []int{31 + 31 + 33, 31 + 31}
			servers := make([]*redistest.Server, len(modes))
			callers := make([]*running, len(modes))
			for i, mode := range modes {
				servers[i] = redistest.Start(t)
				var j job
				j.URL = servers[i].URL()
				j.Config.Failure.Mode = mode
				j.Load = load{Limits: []stint.Limit{limit}, Callers: 4, Pause: 10 * time.Millisecond, For: 3*time.Second + 3*window}
				callers[i] = start(t, processes, j)
			}
			awaitHeartbeats(r, processes, servers...)
			for _, server := range servers {
				server.Kill()
			}
			time.Sleep(window / 2) // so that all that may be admitted can be so in one window
			for _, server := range servers {
				server.Restart(t)
			}
			for i, mode := range modes {
				o := callers[i].wait()
				most := o.busiest(window - skew)
				if most > bounds[i] || o.failures() > 0 || o.Degraded == 0 {
					t.Errorf("%v: %d admitted in a window, want at most %d; %d decisions without Redis, want some; errors %v",
						mode, most, bounds[i], o.Degraded, o.Failed)
				}
				r.saw("%v: at most %d of %d in a window, %d of %d decisions without Redis", mode, most, bounds[i], o.Degraded, o.decisions())
			}
			wantTTLs(r, servers...)

			server := redistest.Start(t)
			s := newStack(t, server.URL(), resilience.Config{})
			awaitNormal(r, s)
			server.Kill()
			o := drive(t.Context(), s, load{Limits: plenty, Callers: 10, Pause: 5 * time.Millisecond, For: pick(3*time.Second, time.Second)})
			if o.Degraded != o.decisions() || o.failures() > 0 {
				t.Errorf("killed: %d of %d decisions are degraded, errors %v", o.Degraded, o.decisions(), o.Failed)
			}
			server.Restart(t)
			r.within("normal after", awaitNormal(r, s), time.Second)
			wantTTLs(r, server)
		})
}

// awaitHeartbeats returns when every one of so many processes has counted them all.
func awaitHeartbeats(r *report, processes int, servers ...*redistest.Server) {
	r.Helper()
	want := strconv.Itoa(processes)
	for _, server := range servers {
		for end := time.Now().Add(30 * time.Second); server.CLI(r, "ZCARD", "stint:instances") != want; {
			if time.Now().After(end) {
				r.Fatal("not all processes say that they are there")
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	time.Sleep(1500 * time.Millisecond) // each does so every second
}

func TestF3(t *testing.T) {
	fault(t, "F3", "replies dropped after the script committed; requests dropped before",
		"at most one charge per call; exactly one per request id however often it is retried", func(r *report) {
			server := redistest.Start(t)
			proxy := redistest.StartProxy(t, server.Addr())
			// A breaker that never opens: every call is sent.
			s := newStack(t, proxy.URL(), resilience.Config{
				Failure: stint.FailurePolicy{Mode: stint.FailError, Budget: patience},
				Breaker: resilience.BreakerConfig{Failures: 1 << 30},
			})
			plain := openStore(t, proxy.URL())
			limit := stint.PerHour(1_000_000)
			for _, test := range []struct {
				name  string
				store stint.Store
			}{{"stack", s}, {"store alone", alone{plain, patience}}} {
				drops := 0
				for fault, begin := range map[string]func(){
					"requests": func() { proxy.DropRequests(0.1) },
					"replies":  func() { proxy.DropReplies(0.1) },
					"both":     func() { proxy.DropRequests(0.05); proxy.DropReplies(0.05) },
				} {
					subject := test.name + ", " + fault
					begin()
					o := ended(r, func() outcome {
						return drive(t.Context(), test.store, load{
							Subject: subject, Limits: []stint.Limit{limit}, Callers: 8, Calls: pick(500, 100)})
					})
					calls := o.decisions() + o.failures()
					retried, tries := retryUntilAnswered(r, test.store, subject+" with ids", limit, pick(500, 100))
					proxy.DropRequests(0)
					proxy.DropReplies(0)
					used := usedOf(r, server.URL(), subject, limit)
					if used < int64(len(o.Admitted)) || used > int64(calls) || o.Denied > 0 {
						t.Errorf("%s dropped: %d charged for %d calls, of which %d were admitted and %d denied",
							subject, used, calls, len(o.Admitted), o.Denied)
					}
					if o.failures() == 0 {
						t.Errorf("%s dropped: nobody noticed", subject)
					}
					if n := usedOf(r, server.URL(), subject+" with ids", limit); n != int64(retried) {
						t.Errorf("%s dropped: %d charged for %d request ids in %d tries", subject, n, retried, tries)
					}
					drops += o.failures() + tries - retried
				}
				r.saw("%s: %d calls lost, none charged twice", test.name, drops)
			}

			// One at a time: what was charged is known.
			for i, drop := range []redistest.Direction{redistest.Requests, redistest.Replies} {
				subject := fmt.Sprint("single", drop)
				take := func() (stint.Decision, error) {
					return s.Take(t.Context(), stint.Request{Claim: stint.Claim{Subject: subject, Limits: []stint.Limit{limit}, Cost: 1}})
				}
				proxy.DropNext(drop, 1)
				if _, err := take(); err == nil {
					t.Errorf("direction %d: a call was answered whose message was dropped", drop)
				}
				if used := usedOf(r, server.URL(), subject, limit); used != int64(i) {
					t.Errorf("direction %d: %d charged by a lost call, want %d", drop, used, i)
				}
			}
			wantTTLs(r, server)
		})
}

// retryUntilAnswered makes so many requests with ids of their own, each again and again
// until it is answered. It returns how many that were, and in how many tries.
func retryUntilAnswered(r *report, s stint.Store, subject string, limit stint.Limit, requests int) (answered, tries int) {
	r.Helper()
	var done, tried, next atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for n := next.Add(1); n <= int64(requests); n = next.Add(1) {
				q := stint.Request{Claim: stint.Claim{Subject: subject, Limits: []stint.Limit{limit}, Cost: 1}, ID: strconv.FormatInt(n, 10)}
				for range 100 {
					tried.Add(1)
					d, err := s.Take(r.Context(), q)
					if err != nil {
						continue
					}
					if !d.Allowed {
						r.Errorf("%s: request %s was denied", subject, q.ID)
					}
					done.Add(1)
					break
				}
			}
		})
	}
	group.Wait()
	if done.Load() != int64(requests) {
		r.Errorf("%s: %d of %d requests were never answered", subject, int64(requests)-done.Load(), requests)
	}
	return requests, int(tried.Load())
}

func TestF9(t *testing.T) {
	fault(t, "F9", "Redis down, 3 instances, flood",
		"≤ I·ceil(L/I) per window in the outage; `deny` policies admit 0; leased limits deny once their blocks are used", func(r *report) {
			const instances = 3
			server := redistest.Start(t)
			var stacks []*stack
			for range instances {
				stacks = append(stacks, newStack(t, server.URL(), resilience.Config{}))
			}
			for _, s := range stacks {
				for end := time.Now().Add(30 * time.Second); s.Instances() != instances; time.Sleep(10 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("%d instances counted, want %d", s.Instances(), instances)
					}
				}
			}
			// Leases of a twentieth of a window are taken while there is a Redis.
			window := pick(2*time.Second, time.Second)
			leased := load{Subject: "leased", Limits: []stint.Limit{stint.Per(20_000, 10*time.Second).WithLease()}, Callers: 4, Pause: time.Millisecond}
			leased.For = time.Second
			before := flood(r, stacks, leased)
			server.Kill()
			killed := time.Now()

			leased.For = window + time.Second // longer than any lease
			local := load{Subject: "local", Limits: []stint.Limit{stint.Per(10, window)}, Callers: 8, Pause: time.Millisecond, For: 2*window + time.Second}
			var inOutage, denied outcome
			var all sync.WaitGroup
			all.Go(func() { inOutage = flood(r, stacks, local) })
			all.Go(func() {
				denied = floodUnder(r, stacks, stint.FailDeny, load{Subject: "deny", Limits: plenty, Callers: 2, Pause: 5 * time.Millisecond, For: window})
			})
			rest := flood(r, stacks, leased)
			all.Wait()

			most := inOutage.busiest(window - skew)
			if most > 12 || most == 0 || inOutage.failures() > 0 || inOutage.Degraded != inOutage.decisions() {
				t.Errorf("local: %d admitted in a window, want at most 12 and more than none; %d of %d degraded, errors %v",
					most, inOutage.Degraded, inOutage.decisions(), inOutage.Failed)
			}
			r.saw("local: %d of 12 in a window, %d asked", most, inOutage.decisions())
			if len(denied.Admitted) > 0 || denied.failures() > 0 || denied.Degraded != denied.decisions() {
				t.Errorf("deny: %d admitted, want none; %d of %d degraded, errors %v",
					len(denied.Admitted), denied.Degraded, denied.decisions(), denied.Failed)
			}
			r.saw("deny: 0 of %d", denied.decisions())

			last := time.Duration(0)
			if n := len(rest.Admitted); n > 0 {
				last = time.UnixMicro(rest.Admitted[n-1]).Sub(killed)
			}
			total := len(before.Admitted) + len(rest.Admitted)
			if total > 20_000 || rest.Denied == 0 || rest.failures() > 0 {
				t.Errorf("leased: %d admitted of 20,000, %d denied in the outage, want some, errors %v", total, rest.Denied, rest.Failed)
			}
			if last > 500*time.Millisecond+skew {
				t.Errorf("leased: the last one was admitted %v after the end of Redis; leases last for 500 ms", last)
			}
			r.saw("leased: %d from blocks, the last %s after the end of Redis, then none", len(rest.Admitted), short(last))
			server.Restart(t)
			wantTTLs(r, server)
		})
}

// flood puts a load on each of the stacks at the same time.
func flood(r *report, stacks []*stack, l load) outcome {
	return floodUnder(r, stacks, stint.FailLocal, l)
}

func floodUnder(r *report, stacks []*stack, mode stint.FailureMode, l load) outcome {
	all := outcome{Failed: map[string]int{}}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, s := range stacks {
		group.Go(func() {
			o := drive(r.Context(), under{s, stint.FailurePolicy{Mode: mode}}, l)
			mu.Lock()
			defer mu.Unlock()
			all.add(o)
		})
	}
	group.Wait()
	slices.Sort(all.Admitted)
	slices.Sort(all.Took)
	return all
}

func TestF13(t *testing.T) {
	fault(t, "F13", "maxmemory reached with noeviction", "a store failure like any other: policy, metric, alert", func(r *report) {
		server := redistest.Start(t, "--maxmemory-policy", "noeviction")
		s, w := watchedStack(t, server.URL(), resilience.Config{})
		awaitNormal(r, s)
		calls := load{Limits: plenty, Callers: 8, Pause: 5 * time.Millisecond, For: pick(2*time.Second, 500*time.Millisecond)}
		for _, mode := range []stint.FailureMode{stint.FailLocal, stint.FailDeny, stint.FailError} {
			server.CLI(t, "CONFIG", "SET", "maxmemory", "1")
			known := w.failed(stint.KindFull)
			o := drive(t.Context(), under{s, stint.FailurePolicy{Mode: mode}}, calls)
			full := w.failed(stint.KindFull) - known
			admitted, failed := len(o.Admitted), o.failures()
			switch {
			case full == 0:
				t.Errorf("%v: nobody was told that Redis is full", mode)
			case mode == stint.FailLocal && (admitted != o.decisions() || failed > 0),
				mode == stint.FailDeny && (admitted > 0 || failed > 0),
				mode == stint.FailError && o.decisions() > 0:
				t.Errorf("%v: %d admitted, %d denied, errors %v", mode, admitted, o.Denied, o.Failed)
			case mode != stint.FailError && o.Degraded != o.decisions():
				t.Errorf("%v: %d of %d decisions are degraded", mode, o.Degraded, o.decisions())
			}
			server.CLI(t, "CONFIG", "SET", "maxmemory", "0")
			r.saw("%v: %d admitted, %d denied, %d errors, %d calls failed as full", mode, admitted, o.Denied, failed, full)
			r.within("normal after", awaitNormal(r, s), time.Second)
		}
		wantTTLs(r, server)
	})
}

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
func (u unready) hold(r *report, s *stack, w *watcher, plain stint.Store) {
	r.Helper()
	// Each connection may have been lost, which its first call finds out.
	drive(r.Context(), plain, load{Subject: u.subject, Limits: plenty, Calls: 20})
	known, before := w.failed(stint.KindBusy), attempts(r, u.servers)
	const calls = 50
	o := drive(r.Context(), plain, load{Subject: u.subject, Limits: plenty, Calls: calls})
	tried := attempts(r, u.servers) - before
	if o.Failed[stint.KindBusy.String()] != calls {
		r.Errorf("%s: errors %v of the store alone, want %d times busy", u.name, o.Failed, calls)
	}
	if tried < calls || tried > 2*calls {
		r.Errorf("%s: %d attempts for %d calls, want at most 2 each", u.name, tried, calls)
	}
	o = drive(r.Context(), s, load{Subject: u.subject, Limits: plenty, Callers: 20, Pause: 5 * time.Millisecond, For: pick(time.Second, 600*time.Millisecond)})
	if o.Degraded != o.decisions() || o.Denied > 0 || o.failures() > 0 {
		r.Errorf("%s: %d of %d decisions are degraded, %d denied, errors %v", u.name, o.Degraded, o.decisions(), o.Denied, o.Failed)
	}
	if w.failed(stint.KindBusy) == known {
		r.Errorf("%s: nobody was told that Redis is busy", u.name)
	}
	r.saw("%s: %.2f attempts per call, %d decisions without Redis", u.name, float64(tried)/calls, o.decisions())
}

// attempts is how often scripts were sent to servers, run or refused.
func attempts(r *report, servers []*redistest.Server) int {
	r.Helper()
	n := 0
	for _, server := range servers {
		for line := range strings.Lines(server.CLI(r, "INFO", "commandstats")) {
			name, stats, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name != "cmdstat_evalsha" && name != "cmdstat_eval" {
				continue
			}
			for stat := range strings.SplitSeq(stats, ",") {
				if key, value, _ := strings.Cut(stat, "="); key == "calls" || key == "rejected_calls" {
					count, err := strconv.Atoi(value)
					if err != nil {
						r.Fatalf("unreadable statistics: %s", line)
					}
					n += count
				}
			}
		}
	}
	return n
}

// clusterDown: a master and its replica are gone, so no node takes anything.
func clusterDown(r *report) {
	r.Helper()
	cluster := redistest.StartCluster(r)
	url := urlOf(cluster.Addrs())
	s, w := watchedStack(r, url, resilience.Config{})
	plain := openStore(r, url)
	awaitNormal(r, s)
	dead := cluster.MasterOf(r, "stint:{normal}:")
	replica := cluster.ReplicaOf(r, dead)
	subject := ""
	for n := 0; subject == "" || cluster.MasterOf(r, "stint:{"+subject+"}:") == dead; n++ {
		subject = fmt.Sprint("elsewhere", n)
	}
	alive := slices.DeleteFunc(slices.Clone(cluster.Nodes), func(n *redistest.Server) bool { return n == dead || n == replica })
	dead.Kill()
	replica.Kill()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		down := 0
		for _, node := range alive {
			if strings.Contains(node.CLI(r, "CLUSTER", "INFO"), "cluster_state:fail") {
				down++
			}
		}
		if down == len(alive) {
			break
		}
		if time.Now().After(end) {
			r.Fatal("the cluster does without a third of its slots")
		}
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

// loading: Redis was restarted and reads its data.
func loading(r *report) {
	r.Helper()
	server := redistest.Start(r, "--key-load-delay", "200", "--loading-process-events-interval-bytes", "1024", "--rdbcompression", "no")
	s, w := watchedStack(r, server.URL(), resilience.Config{})
	plain := openStore(r, server.URL())
	awaitNormal(r, s)
	server.CLI(r, "EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'theirs:' .. i, ('x'):rep(1000)) end", "0", pick("15000", "7500"))
	server.CLI(r, "SAVE")
	server.Restart(r)
	unready{"LOADING", "busy", []*redistest.Server{server}}.hold(r, s, w, alone{plain, patience})
	for strings.Contains(server.CLI(r, "INFO", "persistence"), "loading:1\r\n") {
		time.Sleep(10 * time.Millisecond)
	}
	r.within("normal after", awaitNormal(r, s), time.Second)
	wantTTLs(r, server)
}

// masterDown: Redis has become the replica of a server that is not there, and may not
// answer from what it has.
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

func TestF21(t *testing.T) {
	fault(t, "F21", "500 connections lost at once", "dials capped and jittered", func(r *report) {
		server := redistest.Start(t, "--maxclients", "4000")
		proxy := redistest.StartProxy(t, server.Addr())
		var dials dialLog
		stacks := make([]*stack, pick(125, 20)) // of four connections each
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
		mended := time.Now()
		proxy.Mend()
		group.Wait()
		for _, s := range stacks {
			awaitNormal(r, s)
		}
		if o.failures() > 0 {
			t.Errorf("errors %v", o.Failed)
		}

		down, after := dials.between(cut, mended), dials.between(mended, mended.Add(3*time.Second))
		each := float64(len(down)) / mended.Sub(cut).Seconds() / float64(len(stacks))
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

// farAway loses connections to a server that takes longer to connect to than any decision
// has: a round trip for TCP, another for Redis.
func farAway(r *report, server *redistest.Server) {
	r.Helper()
	const roundTrip = 10 * time.Millisecond
	proxy := redistest.StartProxy(r, server.Addr())
	proxy.SetLatency(roundTrip, 0)
	dials := dialLog{takes: roundTrip}
	s, _ := watchedStack(r, proxy.URL(), resilience.Config{}, dials.join)
	calls := load{Limits: plenty, Callers: 50, Pause: 5 * time.Millisecond, For: pick(2*time.Second, 500*time.Millisecond)}
	drive(r.Context(), s, calls)
	connections := proxy.Open()
	proxy.Cut()
	time.Sleep(300 * time.Millisecond)
	mended := time.Now()
	proxy.Mend()
	var o outcome
	var group sync.WaitGroup
	group.Go(func() { o = drive(r.Context(), s, calls) })
	normal := awaitNormal(r, s)
	group.Wait()
	after := dials.between(mended, time.Now())
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

// join has a client use four connections and its attempts noted.
func (l *dialLog) join(c *rueidis.ClientOption) {
	c.PipelineMultiplex = 2
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
