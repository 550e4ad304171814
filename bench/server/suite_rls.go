package main

import (
	"context"
	"fmt"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/bench/internal/process"
)

// The requests in the rows of the table.
var rlsRows = []struct {
	what     string
	requests func() []*rls.RateLimitRequest
	allowed  float64
}{
	{"hot, allowed", func() []*rls.RateLimitRequest { return questions(allowedKey, 1) }, 1},
	{"hot, denied", func() []*rls.RateLimitRequest { return questions(deniedKey, 1) }, 0},
	{"100,000 keys", func() []*rls.RateLimitRequest { return questions(allowedKey, manyKeys) }, 1},
}

const manyKeys = 100_000

// The bars for stint.
const (
	timesRatelimit = 1.8
	shareOfEcho    = 0.85
)

func (p *programs) runRLS(ctx context.Context, s contest.Settings, r *contest.Report) {
	rack := process.NewRack()
	defer rack.Stop()
	services := startServices(ctx, p, rack)
	defer services.close()

	r.Heading("Envoy's rate limit service, decisions a second", "ShouldRateLimit with one descriptor; each caller calls again as soon as it has an answer; "+
		"stint and envoyproxy/ratelimit each have their own Redis server. The echo makes no decisions and responds with recorded messages of stint.")
	if !services.has(ratelimitName) {
		r.Printf("envoyproxy/ratelimit is not available: stint is compared with the echo only.\n\n")
	}
	var bars rlsBars
	bars.echo = r.AtLeast(shareOfEcho, "", "rls: share of the echo's decisions")
	if services.has(ratelimitName) {
		bars.times = r.AtLeast(timesRatelimit, "", "rls: times the decisions of ratelimit without its cache")
		bars.p99 = r.AtMost(1, "", "rls: p99 as a share of ratelimit's")
	}
	var rates, times [][]string
	for _, row := range rlsRows {
		requests := row.requests()
		for _, callers := range []int{64, 256} {
			for _, connections := range []int{1, 8} {
				l := load{callers: callers, length: length(s), rounds: s.Rounds, allowed: row.allowed}
				measured := l.measure(ctx, services.contenders(connections, requests))
				where := []string{row.what, fmt.Sprint(callers), fmt.Sprint(connections)}
				rates = append(rates, append(where,
					bars.rates(services, measured, fmt.Sprintf("%s, %d on %d", row.what, callers, connections))...))
				line := where
				for _, m := range measured {
					line = append(line, milliseconds(m.p50)+" "+milliseconds(m.p99))
				}
				times = append(times, line)
			}
		}
	}
	header := append([]string{"", "callers", "connections"}, services.names()...)
	r.Table(append(header[:len(header):len(header)], "× ratelimit", "of echo"), rates)
	r.Heading("Envoy's rate limit service, ms", "p50 and p99 in the same rounds.")
	r.Table(header, times)
}

// rlsBars holds the bars that judge the rows. The bars that compare with ratelimit are nil if
// ratelimit is not measured.
type rlsBars struct {
	echo, times, p99 *contest.Bar
}

// rates returns the cells of a row, and judges them.
func (b rlsBars) rates(services *services, measured []sample, where string) []string {
	var cells []string
	by := map[string]sample{}
	for i, name := range services.names() {
		by[name] = measured[i]
		cells = append(cells, count(measured[i].rate))
	}
	stint := by[stintName]
	times := "-"
	if b.times != nil {
		v := stint.rate / by[ratelimitName].rate
		times = fmt.Sprintf("%.2f", v)
		b.times.Judge(v, where)
		b.p99.Judge(stint.p99/by[ratelimitName].p99, where)
	}
	share := stint.rate / by[echoName].rate
	b.echo.Judge(share, where)
	return append(cells, times, fmt.Sprintf("%.2f", share))
}
