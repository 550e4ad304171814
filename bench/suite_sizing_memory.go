package main

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
)

// sizeSubjects measures the memory of Redis per subject, including Redis's own overhead for a key.
func sizeSubjects(ctx context.Context, r *contest.Report, server *redisServer) {
	const subjects = 10_000 // so few that all requests of a subject are in one window
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
			contest.OK(server.do(ctx, "FLUSHALL").Error())
			n := weighSubjects(ctx, server, keys, requests, c.limits)
			line = append(line, contest.Number(round(n, 1)))
		}
		lines = append(lines, line)
	}
	r.Heading("Sizing, Redis memory per subject, bytes", contest.Count(subjects)+
		" subjects with names of 12 bytes; growth of used_memory, so everything that Redis needs for a key is in it.")
	r.Table([]string{"", "1 request", "10 requests", "50 requests"}, lines)
}

// weighSubjects returns how many bytes a server's memory grows per subject.
func weighSubjects(ctx context.Context, server *redisServer, keys []string, requests int,
	limits []stint.Limit) float64 {
	d := openLimiter(openStore(ctx, server.addr, waitForRedis), limits)
	defer d.close()
	before := server.infoNumber(ctx, "memory", "used_memory")
	failures := make([]error, tierCallers)
	var group sync.WaitGroup
	for i := range failures {
		group.Go(func() {
			for range requests {
				for k := i; k < len(keys) && failures[i] == nil; k += tierCallers {
					_, _, failures[i] = d.allow(ctx, keys[k], 1)
				}
			}
		})
	}
	group.Wait()
	contest.OK(cmp.Or(failures...))
	after := server.infoNumber(ctx, "memory", "used_memory")
	return (after - before) / float64(len(keys))
}
