package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/httplimit"
)

// sink is a ResponseWriter that discards what is written.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header             { return s.header }
func (*sink) Write(p []byte) (int, error)       { return len(p), nil }
func (*sink) WriteString(p string) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(status int)          { s.status = status }

// requesting turns a handler into a decider: every decision is a request of the same client.
func requesting(h http.Handler, closer func()) decider {
	r := httptest.NewRequest(http.MethodGet, "/elsewhere", nil)
	w := &sink{header: http.Header{}}
	return decider{close: closer, allow: func(string) (bool, error) {
		w.status = 0
		h.ServeHTTP(w, r)
		return w.status != http.StatusTooManyRequests, nil
	}}
}

func runHTTP(ctx context.Context, s contest.Settings, r *contest.Report) {
	r.Heading("HTTP middleware on memory stores, ns per request", "With a reused ResponseWriter that does nothing. "+
		"stint's tiers are those of the example, with three windows each, matched by claim or address, and five policies by path. The whole example "+
		"also charges a budget and sends both kinds of header fields. The others, and stint's ByIP, have one limit by address. Above: the time added to the bare handler.")
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	var lines [][]string
	for _, allowed := range []bool{true, false} {
		lines = append(lines, runMiddlewares(ctx, s, r, next, allowed)...)
	}
	r.Table([]string{"", "", "ns", "above", "allocs"}, lines)
	runHTTPRedis(ctx, s, r)
}

// runMiddlewares measures the contenders in turn, with requests that they must all allow or all
// deny.
func runMiddlewares(ctx context.Context, s contest.Settings, r *contest.Report, next http.Handler,
	allowed bool) [][]string {
	what, share := "denied", 0.0
	if allowed {
		what, share = "allowed", 1
	}
	var samples []func() cost
	for i, m := range middlewares {
		d := requesting(m.open(next, allowed))
		defer d.close()
		walkers := pattern{subjectKeys(1), 1}.walkers(1)
		d.fill(walkers[0].keys, 100)
		samples = append(samples, func() cost {
			c := measure(d, walkers, contest.Pick(s, 100_000, 20_000))
			if i > 0 && math.Abs(c.allowed-share) > 0.01 {
				contest.Failf("%s: %s allowed a share of %.3f; want %.0f", what, m.name, c.allowed, share)
			}
			return c
		})
	}
	costs := alternate(ctx, s.Rounds, samples...)
	all := nanoseconds(costs)
	var lines [][]string
	for i, m := range middlewares {
		above, allocated := all[i].Median()-all[0].Median(), round(allocations(costs[i]), 100)
		lines = append(lines, []string{what, m.name, plusMinus(all[i]), contest.Number(above),
			contest.Number(allocated)})
		if i == 1 || i == 2 {
			r.AtMost(1000, " ns", fmt.Sprintf("http: %s, %s, above the bare handler", m.name, what)).Judge(above)
			r.AtMost(2, "", fmt.Sprintf("http: %s, %s, allocations", m.name, what)).Judge(allocated)
		}
	}
	return lines
}

// The load of runHTTPRedis: well below the capacity of the machine.
const (
	httpCallers   = 25
	httpPerSecond = 500
	httpUsers     = 1000
)

// proxied configures the header fields in which a proxy on this machine reports the signed-in user.
const proxied = `
client_ip: {trusted_proxies: loopback}
claims: {user: X-User-ID, plan: X-User-Plan}`

// runHTTPRedis measures the latency that limits in Redis add to a real server.
func runHTTPRedis(ctx context.Context, s contest.Settings, r *contest.Report) {
	redis := startRedis(ctx)
	defer redis.Close()
	store := openStore(ctx, redis.addr, stint.FailurePolicy{})
	defer store.Close()
	guard := newGuard(store, proxied+tierTable, nil)
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	var samples []func() []time.Duration
	for _, h := range []http.Handler{next, httplimit.New(guard)(next)} {
		server := httptest.NewServer(h)
		defer server.Close()
		samples = append(samples, func() []time.Duration {
			return arrive(ctx, server.URL, contest.Pick(s, 2*time.Second, time.Second))
		})
	}
	var loads []load
	for _, took := range alternate(ctx, contest.Pick(s, 10, 3), samples...) {
		loads = append(loads, load{Calls: contest.Calls{Took: slices.Sorted(slices.Values(slices.Concat(took...)))}})
	}
	r.Heading("HTTP middleware over Redis, µs per request", fmt.Sprintf("A real server and its clients, %d requests a second of %s users on %d connections; "+
		"client, server and Redis share the machine.", httpPerSecond, contest.Count(httpUsers), httpCallers))
	added := func(q float64) float64 { return loads[1].quantile(q) - loads[0].quantile(q) }
	var lines [][]string
	for _, row := range []struct {
		name     string
		quantile func(float64) float64
	}{{"bare", loads[0].quantile}, {"stint, tiers", loads[1].quantile}, {"added", added}} {
		line := []string{row.name}
		for _, q := range []float64{0.5, 0.9, 0.99} {
			line = append(line, contest.Number(row.quantile(q)))
		}
		lines = append(lines, line)
	}
	r.Table([]string{"", "p50", "p90", "p99"}, lines)
	r.AtMost(2, " ms", "http: added by limits in Redis, p99").Judge(added(0.99) / 1000)
}

// arrive sends requests at a steady pace and returns the duration of each.
func arrive(ctx context.Context, url string, length time.Duration) []time.Duration {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: httpCallers}}
	defer client.CloseIdleConnections()
	const each = time.Second * httpCallers / httpPerSecond
	var (
		group  sync.WaitGroup
		mutex  sync.Mutex
		all    []time.Duration
		failed error
	)
	start := time.Now()
	for i := range httpCallers {
		group.Go(func() {
			var took []time.Duration
			var failure error
			// Callers start one after the other. The first request of each opens its connection and
			// is not counted.
			for n, at := 0, each*time.Duration(i)/httpCallers; at < length && failure == nil; n, at = n+1, at+each {
				time.Sleep(time.Until(start.Add(at)))
				began := time.Now()
				failure = get(ctx, client, url, (n*httpCallers+i)%httpUsers)
				if n > 0 {
					took = append(took, time.Since(began))
				}
			}
			mutex.Lock()
			defer mutex.Unlock()
			all = append(all, took...)
			failed = cmp.Or(failed, failure)
		})
	}
	group.Wait()
	contest.OK(failed)
	return all
}

// get sends a request of a user, which must be allowed.
func get(ctx context.Context, client *http.Client, url string, user int) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("X-User-ID", strconv.Itoa(user))
	r.Header.Set("X-User-Plan", "pro")
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("user %d: %s", user, resp.Status)
	}
	return nil
}
