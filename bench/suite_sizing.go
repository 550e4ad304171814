package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
)

// sizingRow is a way to ask.
type sizingRow struct {
	name    string
	peer    redisPeer
	callers int
	keys    int
	limits  []stint.Limit
}

// patientStack waits for the store: what is decided without it costs the store nothing.
var patientStack = redisPeer{"stint", func(ctx context.Context, addr string, _ int, limits ...stint.Limit) (
	redisDecider, error) {
	return openStackWith(ctx, addr, stint.FailurePolicy{Mode: stint.FailError, Budget: 5 * time.Second}, limits)
}}

func sizingRows() []sizingRow {
	one := []stint.Limit{stint.PerMinute(1000)}
	three := []stint.Limit{stint.PerMinute(1000), stint.PerHour(20_000), stint.PerDay(100_000)}
	leased := []stint.Limit{stint.PerHour(huge).WithLease()}
	return []sizingRow{
		{"one window, plain", redisPeers[plain], 64, manyKeys, one},
		{"one window, batched, 64 callers", patientStack, 64, manyKeys, one},
		{"one window, batched, 256 callers", patientStack, 256, manyKeys, one},
		{"three windows, plain", redisPeers[plain], 64, manyKeys, three},
		{"three windows, batched, 64 callers", patientStack, 64, manyKeys, three},
		{"three windows, batched, 256 callers", patientStack, 256, manyKeys, three},
		{"one window, 100 subjects, batched, 256 callers", patientStack, 256, 100, []stint.Limit{stint.PerHour(huge)}},
		{"one window, 100 subjects, leased, 64 callers", patientStack, 64, 100, leased},
	}
}

// spending is what a server has used so far.
type spending struct{ cpu, in, out, replicated float64 }

func (s *redisServer) spending(ctx context.Context) (n spending, err error) {
	if n.cpu, err = s.cpu(ctx); err != nil {
		return n, err
	}
	if n.in, err = s.infoNumber(ctx, "stats", "total_net_input_bytes"); err != nil {
		return n, err
	}
	if n.out, err = s.infoNumber(ctx, "stats", "total_net_output_bytes"); err != nil {
		return n, err
	}
	n.replicated, err = s.infoNumber(ctx, "replication", "master_repl_offset")
	n.out -= n.replicated
	return n, err
}

// runSizing measures what decisions and subjects cost a Redis with a replica: the figures from
// which docs/sizing.md computes.
func runSizing(ctx context.Context, s contest.Settings, r *contest.Report) error {
	p, err := startReplicas(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	var lines [][]string
	for _, row := range sizingRows() {
		line, err := row.measure(ctx, s, p.master)
		if err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
		lines = append(lines, line)
	}
	r.Heading("Sizing, what a decision costs Redis", "A server with a replica; "+contest.Count(manyKeys)+
		" subjects in turn unless it says otherwise. Bytes are those on the connections of clients, both ways, and to the replica.")
	r.Table([]string{"", "decisions a second", "processor, µs", "bytes in", "bytes out", "replicated"}, lines)
	return sizeSubjects(ctx, r, p.master)
}

// measure asks for some time and returns a line of the table: the medians of the rounds.
func (row sizingRow) measure(ctx context.Context, s contest.Settings, server *redisServer) ([]string, error) {
	if err := server.do(ctx, "FLUSHALL").Error(); err != nil {
		return nil, err
	}
	d, err := row.peer.open(ctx, server.addr, row.callers, row.limits...)
	if err != nil {
		return nil, err
	}
	defer d.close()
	walkers := pattern{subjectKeys(row.keys), 1}.walkers(row.callers)
	length := contest.Pick(s, time.Second, 300*time.Millisecond)
	if _, err := press(ctx, server, d, walkers, 3*length); err != nil { // most subjects have asked
		return nil, err
	}
	var rate, cpu, in, out, replicated contest.Series
	for range s.Rounds {
		before, err := server.spending(ctx)
		if err != nil {
			return nil, err
		}
		l, err := press(ctx, server, d, walkers, length)
		if err != nil {
			return nil, err
		}
		after, err := server.spending(ctx)
		if err != nil {
			return nil, err
		}
		if l.allowed < 1 {
			return nil, fmt.Errorf("a share of %.3f was allowed; want all", l.allowed)
		}
		per := func(a, b float64) float64 { return (b - a) / l.decisions }
		rate, cpu = append(rate, l.perSecond), append(cpu, per(before.cpu, after.cpu)*1e6)
		in, out = append(in, per(before.in, after.in)), append(out, per(before.out, after.out))
		replicated = append(replicated, per(before.replicated, after.replicated))
	}
	return []string{row.name, contest.Count(int64(rate.Median())), plusMinus(cpu), plusMinus(in), plusMinus(out),
		plusMinus(replicated)}, nil
}

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
