package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
)

// patientStack waits for the store: what is decided without it costs the store nothing.
var patientStack = redisPeer{"stint", func(ctx context.Context, addr string, _ int, limits ...stint.Limit) (
	redisDecider, error) {
	return openStackWith(ctx, addr, stint.FailurePolicy{Mode: stint.FailError, Budget: 5 * time.Second}, limits)
}}

// sizeSubjects weighs subjects in the memory of Redis, its own overhead for a key included.
func sizeSubjects(ctx context.Context, r *contest.Report, server *redisServer) error {
	const subjects = 10_000 // so few that the last of their requests is in the window of the first
	keys := subjectKeys(subjects)
	var lines [][]string
	for _, c := range []struct {
		name   string
		limits []stint.Limit
	}{
		{"100/min", []stint.Limit{stint.PerMinute(exact)}},
		{"100/min, 2,000/h and 50,000/day", tierLimits(time.Minute)},
	} {
		line := []string{c.name}
		for _, requests := range []int{1, 10, 50} {
			if err := server.do(ctx, "FLUSHALL").Error(); err != nil {
				return err
			}
			n, err := weighSubjects(ctx, server, keys, requests, c.limits)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			line = append(line, contest.Number(round(n, 1)))
		}
		lines = append(lines, line)
	}
	r.Heading("Sizing, Redis memory per subject, bytes", contest.Count(subjects)+
		" subjects with names of 12 bytes; growth of used_memory, so everything that Redis needs for a key is in it.")
	r.Table([]string{"", "1 request", "10 requests", "50 requests"}, lines)
	return nil
}

// weighSubjects returns by how many bytes a server's memory grows for each subject.
func weighSubjects(ctx context.Context, server *redisServer, keys []string, requests int, limits []stint.Limit) (
	float64, error) {
	d, err := patientStack.open(ctx, server.addr, tierCallers, limits...)
	if err != nil {
		return 0, err
	}
	defer d.close()
	before, err := server.infoNumber(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	failures := make(chan error, tierCallers)
	for i := range tierCallers {
		go func() {
			var failed error
			for range requests {
				for k := i; k < len(keys) && failed == nil; k += tierCallers {
					_, _, failed = d.allow(ctx, keys[k], 1)
				}
			}
			failures <- failed
		}()
	}
	for range tierCallers {
		if failed := <-failures; failed != nil {
			err = failed
		}
	}
	if err != nil {
		return 0, err
	}
	after, err := server.infoNumber(ctx, "memory", "used_memory")
	return (after - before) / float64(len(keys)), err
}
