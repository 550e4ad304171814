package faults

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/resilience"
)

func TestF60(t *testing.T) {
	fault(t, "F60", "FLUSHALL, restart from an old snapshot, eviction, with three processes that live on",
		"at most A + what is granted in the first 3 s + what the dead and the forgotten had", func(r *report) {
			const processes, all, charged = 3, 1000, 800
			const state = "stint:{shared}:limits"
			limit := stint.PerHour(all)
			for name, lose := range map[string]func(server *redistest.Server, old []string){
				"flushed":     func(server *redistest.Server, _ []string) { server.CLI(r, "FLUSHALL") },
				"evicted":     func(server *redistest.Server, _ []string) { server.CLI(r, "DEL", state) },
				"killed":      func(server *redistest.Server, _ []string) { server.Restart(t) },
				"an old copy": func(server *redistest.Server, old []string) { server.CLI(r, old...) },
			} {
				server := redistest.Start(t)
				stacks, stops := make([]stack, processes), make([]func() outcome, processes)
				for i := range stacks {
					stacks[i] = newStack(t, server.URL(), resilience.Config{
						Failure: stint.FailurePolicy{Mode: stint.FailDeny, Budget: patience}})
				}
				take(r, stacks[0], "shared", limit)
				old := []string{"EVAL", "for i, key in ipairs(KEYS) do redis.call('RESTORE', key, '3600000', ARGV[i], 'REPLACE') end",
					"2", state, "stint:instances",
					server.CLI(r, "DUMP", state), server.CLI(r, "DUMP", "stint:instances")}
				most := request("shared", limit)
				most.Claims[0].Cost = charged - 1
				ask(r, stacks[0], most)
				for i, s := range stacks {
					stops[i] = driving(t.Context(), s,
						load{Limits: []stint.Limit{limit}, Pause: 50 * time.Millisecond})
				}
				used := func(least int64) func() bool {
					return func() bool { return usedOf(r, server.URL(), "shared", limit) >= least }
				}
				testkit.Eventually(r, "the processes share the limit", used(charged+20))
				awaitHeartbeats(r, processes, server)
				lose(server, old)
				testkit.Eventually(r, name+": the limit is used up again", used(all))
				admitted := charged
				for _, stop := range stops {
					admitted += len(stop().Admitted)
				}
				// Without this, a loss adds all that was used before.
				if admitted < all || admitted > all+charged/2 {
					r.Errorf("%s: %d of %d admitted in a window; want few more", name, admitted, all)
				}
				r.saw("%s: %d of %d in a window", name, admitted, all)
			}
		})
}

// awaitHeartbeats returns when every one of so many processes has counted them all.
func awaitHeartbeats(r *report, processes int, servers ...*redistest.Server) {
	r.Helper()
	for _, server := range servers {
		seen := func() []string { // the processes, each followed by when it was there last
			return strings.Fields(server.CLI(r, "ZRANGEBYSCORE", "stint:instances", "0", "+inf", "WITHSCORES"))
		}
		testkit.Eventually(r, "all processes say that they are there", func() bool { return len(seen()) == 2*processes })
		// The next time each of them finds all. The time after that it has been told so.
		for range 2 {
			last := seen()
			testkit.Eventually(r, "all processes say so again", func() bool {
				now := seen()
				for i := 1; i < len(last); i += 2 {
					if at := slices.Index(now, last[i-1]); at < 0 || now[at+1] == last[i] {
						return false
					}
				}
				return true
			})
		}
	}
}

func TestF3(t *testing.T) {
	fault(t, "F3", "replies dropped after the script committed; requests dropped before",
		"at most one charge per call; exactly one per request id however often it is retried", func(r *report) {
			server := redistest.Start(t)
			proxy := redistest.StartProxy(t, server.Addr())
			// A breaker that never opens: every call is sent.
			config := patient(nil)
			config.BreakerFailures = math.MaxInt
			s := newStack(t, proxy.URL(), config)
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
				proxy.DropNext(drop, 1)
				if _, err := s.Take(t.Context(), request(subject, limit)); err == nil {
					t.Errorf("direction %d: a call was answered whose message was dropped", drop)
				}
				if used := usedOf(r, server.URL(), subject, limit); used != int64(i) {
					t.Errorf("direction %d: %d charged by a lost call, want %d", drop, used, i)
				}
			}
			wantTTLs(r, server)
		})
}

// retryUntilAnswered makes so many requests with ids of their own, each again and again until it is
// answered. It returns how many that were, and in how many tries.
func retryUntilAnswered(r *report, s stint.Store, subject string, limit stint.Limit, requests int) (
	answered, tries int) {
	r.Helper()
	var done, tried atomic.Int64
	inParallel(4, requests, func(_, n int) {
		q := request(subject, limit)
		q.ID = strconv.Itoa(n)
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
	})
	if done.Load() != int64(requests) {
		r.Errorf("%s: %d of %d requests were never answered", subject, int64(requests)-done.Load(), requests)
	}
	return requests, int(tried.Load())
}

func TestF13(t *testing.T) {
	fault(t, "F13", "maxmemory reached with noeviction", "a store failure like any other: policy, metric, alert", func(r *report) {
		server := redistest.Start(t, "--maxmemory-policy", "noeviction")
		s, w := watchedStack(t, server.URL(), resilience.Config{})
		awaitNormal(r, s)
		calls := load{Limits: plenty, Callers: 8, Pause: 5 * time.Millisecond,
			For: pick(2*time.Second, 500*time.Millisecond)}
		for _, mode := range []stint.FailureMode{stint.FailLocal, stint.FailDeny, stint.FailError} {
			server.CLI(t, "CONFIG", "SET", "maxmemory", "1")
			known := w.failed(stint.KindFull)
			o := driveUntil(t.Context(), under{s, stint.FailurePolicy{Mode: mode}}, calls,
				func(*outcome) bool { return w.failed(stint.KindFull) > known })
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
