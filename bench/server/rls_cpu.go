package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/bench/server/process"
)

// runCPU tells what each of the processes that take part in a decision computes for it: where they share the cores, that
// is what rates are made of.
func (all *services) runCPU(ctx context.Context, s contest.Settings, r *contest.Report) error {
	r.Heading("Envoy's rate limit service, CPU time a decision", "In µs, with 64 callers on 1 connection, in one round more. "+
		"Cores that are shared by everything in a row make its rate: two of them do 20,000 decisions a second of 100 µs.")
	var rows [][]string
	for _, row := range rlsRows {
		requests := row.requests()
		for _, one := range all.list {
			spent, err := one.spend(ctx, 64, 2*length(s), one.ask(1, requests))
			if err != nil {
				return fmt.Errorf("%s: %s: %w", row.what, one.name, err)
			}
			cells := []string{row.what, one.name}
			for _, v := range []float64{spent.driver, spent.server, spent.redis, spent.driver + spent.server + spent.redis} {
				cells = append(cells, fmt.Sprintf("%.1f", v))
			}
			rows = append(rows, cells)
		}
	}
	r.Table([]string{"", "", "driver", "server", "Redis", "together"}, rows)
	return nil
}

// spending is microseconds of CPU time a decision.
type spending struct{ driver, server, redis float64 }

// spend drives a service and tells what that took.
func (s *service) spend(ctx context.Context, callers int, length time.Duration, call ask) (spending, error) {
	before, err := s.clocks()
	if err != nil {
		return spending{}, err
	}
	start := time.Now()
	done, err := drive(ctx, callers, length, call)
	if err != nil {
		return spending{}, err
	}
	decisions := done.rate * time.Since(start).Seconds()
	after, err := s.clocks()
	if err != nil {
		return spending{}, err
	}
	each := func(i int) float64 { return float64((after[i] - before[i]).Microseconds()) / decisions }
	return spending{each(0), each(1), each(2)}, nil
}

// clocks are the CPU times of the driver, the server and its Redis.
func (s *service) clocks() ([3]time.Duration, error) {
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return [3]time.Duration{}, err
	}
	times := [3]time.Duration{time.Duration(self.Utime.Nano() + self.Stime.Nano())}
	for i, p := range []*process.Process{s.process, s.redis} {
		if p == nil {
			continue
		}
		var err error
		if times[i+1], err = p.CPU(); err != nil {
			return times, err
		}
	}
	return times, nil
}
