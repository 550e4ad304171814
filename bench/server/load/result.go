package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

// The expected results: the range of the share of denied requests, and a bound for the 99th
// percentile of the response times.
const (
	leastDenied = 0.04
	mostDenied  = 0.06
	slowest     = 50 * time.Millisecond
)

type result struct {
	length time.Duration
	all    group
	tiers  map[string]*group
	found  findings
}

// group counts the requests of one tier, or of all.
type group struct {
	users                             map[string]bool
	requests, admitted, denied, other int
	degraded                          int             // admitted and denied requests decided without Redis
	took                              []time.Duration // sorted
}

func (g *group) add(r *request) {
	g.users[r.user] = true
	g.requests++
	switch {
	case r.admitted():
		g.admitted++
	case r.denied():
		g.denied++
	default:
		g.other++
	}
	if r.degraded {
		g.degraded++
	}
	g.took = append(g.took, r.to.Sub(r.from))
}

// quantile returns the q-quantile of the response times.
func (g *group) quantile(q float64) time.Duration { return contest.Quantile(g.took, q) }

func (g *group) share(n int) float64 { return float64(n) / float64(g.requests) }

// summarize checks all requests and counts them.
func summarize(log []request) (*result, error) {
	if len(log) == 0 {
		return nil, errors.New("the log has no requests")
	}
	newGroup := func() *group { return &group{users: map[string]bool{}} }
	r := &result{all: *newGroup(), tiers: map[string]*group{}, found: check(log)}
	first, last := log[0].from, log[0].to
	for i := range log {
		q := &log[i]
		if q.from.Before(first) {
			first = q.from
		}
		if q.to.After(last) {
			last = q.to
		}
		tier := tierOf(q.user)
		if r.tiers[tier] == nil {
			r.tiers[tier] = newGroup()
		}
		r.all.add(q)
		r.tiers[tier].add(q)
	}
	r.length = last.Sub(first)
	slices.Sort(r.all.took)
	for _, g := range r.tiers {
		slices.Sort(g.took)
	}
	return r, nil
}

// failure returns an error that describes each failed check, or nil. A late answer is a result, not
// a failure.
func (r *result) failure() error {
	var errs []error
	for _, list := range []struct {
		what  string
		cases []string
	}{{"not justified", r.found.unjustified}, {"limits exceeded", r.found.exceeded}} {
		if n := len(list.cases); n > 0 {
			errs = append(errs, fmt.Errorf("%s: %d, such as %s", list.what, n,
				strings.Join(list.cases[:min(n, 3)], "; ")))
		}
	}
	if r.all.other > 0 {
		errs = append(errs, fmt.Errorf("%d requests were answered with neither 200 nor 429, or not at all", r.all.other))
	}
	if share := r.all.share(r.all.denied); share < leastDenied || share > mostDenied {
		errs = append(errs, fmt.Errorf("a share of %.3f was denied; want %.2f to %.2f", share, leastDenied, mostDenied))
	}
	return errors.Join(errs...)
}

// text formats the result as Markdown.
func (r *result) text() string {
	var b strings.Builder
	word := "ok"
	if r.all.quantile(0.99) >= slowest {
		word = "MISSED"
	}
	fmt.Fprintf(&b, "%s requests of %s users in %.0f s, %s a second.\n\n", contest.Count(int64(r.all.requests)), contest.Count(int64(len(r.all.users))),
		r.length.Seconds(), contest.Count(int64(float64(r.all.requests)/r.length.Seconds())))
	b.WriteString(contest.Table([]string{"what", "want", "measured"}, [][]string{
		{"admitted", "about 95%", percent(r.all.share(r.all.admitted))},
		{"answered 429", "about 5%", percent(r.all.share(r.all.denied))},
		{"failed", "0", fmt.Sprint(r.all.other)},
		{"p99", "< " + milliseconds(slowest), milliseconds(r.all.quantile(0.99)) + " " + word},
		{"without Redis", "any", percent(r.all.share(r.all.degraded))},
		{"429s that are not justified", "0",
			fmt.Sprintf("%d of %s", len(r.found.unjustified), contest.Count(int64(r.found.denied)))},
		{"limits exceeded", "0", fmt.Sprintf("%d of %s", len(r.found.exceeded), contest.Count(int64(r.found.counts)))},
	}))
	var rows [][]string
	for _, tier := range slices.Sorted(maps.Keys(r.tiers)) {
		g := r.tiers[tier]
		rows = append(rows, []string{tier, fmt.Sprint(len(g.users)), contest.Count(int64(g.requests)),
			contest.Count(int64(g.admitted)), contest.Count(int64(g.denied)),
			milliseconds(g.quantile(0.5)), milliseconds(g.quantile(0.95)), milliseconds(g.quantile(0.99))})
	}
	b.WriteByte('\n')
	b.WriteString(contest.Table([]string{"tier", "users", "requests", "admitted", "429", "p50", "p95", "p99"}, rows))
	return b.String()
}

func percent(share float64) string { return fmt.Sprintf("%.2f%%", 100*share) }

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
