package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/internal/sizing"
)

// sizeProcesses varies the number of processes that share a server.
func sizeProcesses(ctx context.Context, s contest.Settings, r *contest.Report, server *redisServer) {
	var lines [][]string
	for _, way := range []sizing.Way{sizing.Plain, sizing.Batched64} {
		for _, processes := range []int{1, 2, 4} {
			l := sizingLoad{way: way, keys: manyKeys, processes: processes, questions: []question{oneWindow}}
			m := l.measure(ctx, s, server.addr, server)
			lines = append(lines, m.line(fmt.Sprintf("%s, processes: %d", way.Name, processes)))
		}
	}
	r.Heading("Sizing, processes on one server", "One window. Each process has connections and batches of its own; here all of them are in one.")
	r.Table(sizedHeader, lines)
}

// sizeRates makes four processes send requests at a rate, at random times: an idle server wakes up
// for most calls. The first two rates yield the cost of that; the last one checks it.
func sizeRates(ctx context.Context, s contest.Settings, r *contest.Report, server *redisServer,
	ways []sizing.Way) {
	var lines, wakes [][]string
	for _, way := range ways[:2] {
		var all []*sized
		for i, rate := range []float64{16_000, 8000, 2000} {
			l := sizingLoad{way: way, keys: manyKeys / 50, processes: 4, questions: []question{oneWindow}}
			l.way.Callers = int(rate / 1000) // each caller pauses for 4 ms
			l.pause = 4 * time.Millisecond
			m := l.measure(ctx, s, server.addr, server)
			all = append(all, m)
			if i < 2 {
				wake := m.cost().Plus(-1, way.One).Times(1 / (1 - m.use()))
				way.Wake = way.Wake.Times(float64(i)).Plus(1, wake).Times(1 / float64(i+1)) // the mean
			}
		}
		for _, m := range all {
			n := int64(m.rate.Median())
			computed := way.Use(sizing.Calls{Decisions: n, Subjects: n, Windows: n})
			lines = append(lines, append(m.line(way.Name), contest.Number(round(m.use(), 100)),
				contest.Number(round(computed, 100))))
		}
		w := way.Wake
		wakes = append(wakes, []string{way.Name, contest.Number(round(w.CPU, 10)), contest.Number(round(w.In, 1)),
			contest.Number(round(w.Out, 1)), contest.Number(round(w.Client, 10))})
	}
	r.Heading("Sizing, a server that is not busy", "One window, four processes that ask at random times. Use is the part of a core that Redis uses, "+
		"measured and computed. Wake is what a decision costs more on an idle server, from the first two rates of each way.")
	r.Table(append(sizedHeader, "use", "computed"), lines)
	r.Printf("\n")
	r.Table([]string{"wake", "CPU, µs", "bytes in", "bytes out", "client CPU, µs"}, wakes)
}

// use returns the share of a core that Redis used.
func (m *sized) use() float64 { return m.rate.Median() * m.cpu.Median() / 1e6 }

// sizeLeases measures the cost of leases, which depends not on decisions but on subjects, for their
// blocks.
func sizeLeases(ctx context.Context, r *contest.Report, server *redisServer) {
	const subjects, length = 1000, 6 * time.Second // two leases of a minute
	l := sizingLoad{way: sizing.Batched64, keys: subjects,
		questions: []question{{limits: []stint.Limit{stint.PerMinute(huge).WithLease()}}}}
	contest.OK(server.do(ctx, "FLUSHALL").Error())
	d := l.open(ctx, server.addr)
	defer d.close()
	walkers := pattern{subjectKeys(l.keys), 1}.walkers(l.way.Callers)
	press(ctx, server, d, walkers, length)
	did, spent := spend(ctx, []*redisServer{server}, d, walkers, length)
	blocks := subjects * length.Seconds() * sizing.Blocks(time.Minute)
	each := spent.Times(1 / blocks)
	r.Heading("Sizing, leases", fmt.Sprintf("%s subjects with one window of a minute, one process with 64 callers, for %v. "+
		"A block is taken, and what is left of it is given back, every %.1f s; the processor and bytes are per block.",
		contest.Count(subjects), length, 1/sizing.Blocks(time.Minute)))
	r.Table(append([]string{"client CPU per decision, µs"}, sizedHeader[1:len(sizedHeader)-1]...), [][]string{{
		contest.Number(round(spent.Client/did.decisions, 100)), contest.Count(int64(did.perSecond)),
		contest.Number(round(each.CPU, 10)), contest.Number(round(each.In, 1)), contest.Number(round(each.Out, 1)),
		contest.Number(round(each.Replicated, 1))}})
}

// checkModel compares what the model computes from the rows of this run with a load that is not one
// of them.
func checkModel(ctx context.Context, s contest.Settings, r *contest.Report, server *redisServer,
	ways []sizing.Way) {
	mix := []question{twoWindows, oneWindow, fourAndTwo, twoWindows, threeWindows}
	var calls sizing.Calls
	for i := range mix {
		calls = calls.Plus(mix[i].calls())
	}
	var lines [][]string
	for i := range ways {
		l := sizingLoad{way: ways[i], keys: manyKeys, processes: 3, questions: mix}
		m := l.measure(ctx, s, server.addr, server)
		got, n := m.cost(), float64(calls.Decisions)
		want := ways[i].Cost(calls)
		line := []string{ways[i].Name}
		for _, pair := range [][2]float64{{want.CPU / n, got.CPU}, {want.In / n, got.In}, {want.Out / n, got.Out},
			{want.Replicated / n, got.Replicated}} {
			line = append(line, fmt.Sprintf("%s / %s (%+.0f%%)", contest.Number(round(pair[0], 10)),
				contest.Number(round(pair[1], 10)), 100*(pair[0]/pair[1]-1)))
		}
		lines = append(lines, line)
	}
	r.Heading("Sizing, computed / measured for a mixed load",
		"Computed from the rows of this run. Two fifths of the requests have two windows, a fifth each has one, three, "+
			"and three with a shared fourth; three processes.")
	r.Table([]string{"", "CPU, µs", "bytes in", "bytes out", "replicated"}, lines)
}

// sizeShards compares one shard of a Cluster with three.
func sizeShards(ctx context.Context, s contest.Settings, r *contest.Report) {
	r.Heading("Sizing, shards of a Cluster", "Three windows, no replicas; costs are sums over all shards. "+
		"The last column is the busiest shard's part of the CPU time.")
	r.Table(append(sizedHeader, "busiest"), append(sizeCluster(ctx, s, 1), sizeCluster(ctx, s, 3)...))
}

// sizeCluster measures a Cluster with that number of shards.
func sizeCluster(ctx context.Context, s contest.Settings, shards int) (lines [][]string) {
	c := startCluster(ctx, shards)
	defer c.Close()
	for _, way := range []sizing.Way{sizing.Plain, sizing.Batched64, sizing.Batched256} {
		l := sizingLoad{way: way, keys: manyKeys, questions: []question{threeWindows}}
		busy := make([]float64, shards)
		for i, node := range c {
			busy[i] = node.cpu(ctx)
		}
		m := l.measure(ctx, s, c.addr(), c...)
		most, sum := 0.0, 0.0
		for i, node := range c {
			used := node.cpu(ctx) - busy[i]
			most, sum = math.Max(most, used), sum+used
		}
		lines = append(lines, append(m.line(fmt.Sprintf("%s, %s", plural(shards, "shard"), way.Name)),
			contest.Number(round(most/sum, 100))))
	}
	return lines
}
