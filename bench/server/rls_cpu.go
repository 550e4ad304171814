package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/bench/internal/process"
)

// mostOfEcho is the maximum CPU time of stint's server for an allowed decision, relative to the
// echo.
const mostOfEcho = 1.15

// runRLSCPU reports the CPU time of each process that takes part in a decision. If the processes
// share the cores, these times determine the rates.
func (p *programs) runRLSCPU(ctx context.Context, s contest.Settings, r *contest.Report) {
	rack := process.NewRack()
	defer rack.Stop()
	all := startServices(ctx, p, rack)
	defer all.close()
	r.Heading("Envoy's rate limit service, CPU time a decision", "In µs, with 64 callers on 1 connection. All values are medians, including the sums. "+
		"The cores that all processes in a row share determine its rate: at 100 µs a decision, two cores make 20,000 decisions a second.")
	var rows [][]string
	for _, row := range rlsRows {
		requests := row.requests()
		calls := make([]contest.Call, len(all.list))
		for i, one := range all.list {
			calls[i] = one.ask(1, requests)
		}
		spent := make([][4]contest.Series, len(all.list))
		for _, which := range contest.Turns(s.Rounds, len(all.list)) {
			one := all.list[which]
			for i, v := range one.spend(ctx, 64, length(s), calls[which]) {
				spent[which][i] = append(spent[which][i], v)
			}
		}
		if row.allowed > 0 {
			var ratios contest.Series
			stint := spent[slices.Index(all.names(), stintName)][1]
			echo := spent[slices.Index(all.names(), echoName)][1]
			for i := range stint {
				ratios = append(ratios, stint[i]/echo[i])
			}
			r.AtMost(mostOfEcho, "×", "rls-cpu: "+row.what+", CPU time of the server to the echo's").
				Judge(ratios.Median())
		}
		for which, one := range all.list {
			cells := []string{row.what, one.name}
			for _, series := range spent[which] {
				cells = append(cells, fmt.Sprintf("%.1f", series.Median()))
			}
			rows = append(rows, cells)
		}
	}
	r.Table([]string{"", "", "driver", "server", "Redis", "together"}, rows)
}

// spend drives a service and returns the CPU time of the driver, the server, its Redis and all of
// them, in microseconds per decision.
func (s *service) spend(ctx context.Context, callers int, length time.Duration, call contest.Call) (micros [4]float64) {
	before := s.clocks()
	done := contest.Must(contest.Drive(ctx, callers, 1, length, call))
	after := s.clocks()
	for i := range before {
		micros[i] = float64((after[i] - before[i]).Microseconds()) / float64(done.Count)
		micros[len(before)] += micros[i]
	}
	return micros
}

// clocks returns the CPU times of the driver, the server and its Redis.
func (s *service) clocks() [3]time.Duration {
	times := [3]time.Duration{process.OwnCPU()}
	for i, p := range []*process.Process{s.process, s.redis} {
		if p == nil {
			continue
		}
		times[i+1] = p.CPU()
	}
	return times
}
