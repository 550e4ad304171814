package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"runtime"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

// observed is a row of the suite: how decisions are made.
type observed struct {
	name    string
	allowed bool
	keys    int
	callers int
	open    func(guard *policy.Guard, allowed bool) decider
}

var observedRows = []observed{
	{"guard, allowed", true, 1, 1, asking},
	{"guard, allowed, 100,000 subjects", true, 100_000, 1, asking},
	{"guard, allowed, 100,000 subjects, all cores", true, 100_000, runtime.GOMAXPROCS(0), asking},
	{"guard, denied", false, 1, 1, asking},
	{"guard, denied, 100,000 subjects", false, 100_000, 1, asking},
	{"middleware, allowed", true, 1, 1, behindMiddleware},
	{"middleware, denied", false, 1, 1, behindMiddleware},
}

// observedConfig allows users with a plan everything, and other users one request a day.
const observedConfig = `
tiers:
  - {name: vast, match: {claim: {plan: vast}}, identity: user, limits: [1000000000/1m burst 2x, 60000000000/1h, 1440000000000/1d]}
  - {name: free, identity: user, limits: [1/1d, 2/2d, 3/3d]}
  - {name: anonymous, identity: ip, limits: 0/1m}
policies:
  - {name: structure, match: {method: GET, path: "/structures/{id}"}, cost: 1}
  - {name: simulate, match: {method: POST, path: /simulations}, cost: 10}
  - {name: frames, match: {method: GET, path: "/simulations/{id}/frames"}, cost: 5}
`

// runObserve measures the cost of being observed.
func runObserve(ctx context.Context, s contest.Settings, r *contest.Report) {
	r.Heading("Being observed, ns per decision on the memory store", "By a monitor with everything on: counters and histograms, history, "+
		"feed, offenders, alerts, and a reader of its ticks. Kept: the share of decisions a second that is left, the median of many short turns.")
	bar := r.AtLeast(0.95, "", "observe: decisions a second kept")
	var lines [][]string
	for _, row := range observedRows {
		all := row.run(ctx, s)
		kept := ratios(all[0], all[1]).Median()
		bar.Judge(kept, row.name)
		lines = append(lines, []string{row.name, plusMinus(all[0]), plusMinus(all[1]), fmt.Sprintf("%.3f", kept)})
	}
	r.Table([]string{"", "alone", "observed", "kept"}, lines)
}

// run makes an unobserved and an observed decider take turns.
func (o observed) run(ctx context.Context, s contest.Settings) []contest.Series {
	monitor := observe.New(observe.Config{Logger: slog.New(slog.DiscardHandler)})
	defer monitor.Close()
	ticks, cancel := monitor.Subscribe()
	defer cancel()
	go func() { // ends when the monitor is closed
		for range ticks {
		}
	}()
	keys := subjectKeys(o.keys)
	var samples []func() float64
	for _, observer := range []stint.Observer{nil, monitor} {
		store := contest.Must(memorystore.New(memorystore.Config{}))
		defer store.Close()
		d := o.open(newGuard(store, observedConfig, observer), o.allowed)
		walkers := pattern{keys, 1}.walkers(o.callers)
		d.fill(keys, 1)
		samples = append(samples, func() float64 {
			c := measure(d, walkers, chunk)
			if want := map[bool]float64{true: 1}[o.allowed]; math.Abs(c.allowed-want) > 0.001 {
				contest.Failf("%s: allowed a share of %.3f; want %.0f", o.name, c.allowed, want)
			}
			return c.nanoseconds
		})
	}
	return alternate(ctx, s.Rounds*contest.Pick(s, 40, 20), samples...)
}

// ratios divides measurements of the same round, because the difference of interest is smaller than
// the changes of the machine within seconds.
func ratios(above, below contest.Series) contest.Series {
	all := make(contest.Series, len(above))
	for i := range all {
		all[i] = above[i] / below[i]
	}
	return all
}

// user is a caller, in the tier that allows everything or in the one that allows nothing.
type user struct {
	name    string
	allowed bool
}

func (u user) Claim(name string) string {
	switch {
	case name == "user":
		return u.name
	case name == "plan" && u.allowed:
		return "vast"
	}
	return ""
}

// asking returns a decider that sends requests of many users to a guard.
func asking(guard *policy.Guard, allowed bool) decider {
	peer := netip.MustParseAddr("192.0.2.1")
	return decider{close: func() {}, allow: func(key string) (bool, error) {
		in := policy.Input{Method: http.MethodGet, Path: "/structures/7", Peer: peer, Claims: user{key, allowed}}
		var v policy.Verdict
		err := guard.Decide(context.Background(), &in, &v)
		return v.Decision.Allowed, err
	}}
}

// behindMiddleware sends requests of one user through a middleware.
func behindMiddleware(guard *policy.Guard, allowed bool) decider {
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	claims := httplimit.WithClaims(func(_ *http.Request, name string) string { return user{"42", allowed}.Claim(name) })
	return requesting(httplimit.New(guard, claims)(next), func() {})
}
