package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/internal/sizing"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// question is a kind of request: its windows, and whether it asks about everyone too.
type question struct {
	limits   []stint.Limit
	everyone bool
}

func (q *question) of(key string) stint.Request {
	r := stint.Request{Claim: stint.Claim{Subject: key, Limits: q.limits, Cost: 1}}
	if q.everyone {
		r.And = []stint.Claim{{Subject: "everyone", Limits: everyoneLimits, Cost: 1, Shared: true}}
	}
	return r
}

// calls is what the model computes with.
func (q *question) calls() sizing.Calls {
	c := sizing.Calls{Decisions: 1, Subjects: 1, Windows: int64(len(q.limits))}
	if q.everyone {
		c.Subjects, c.Windows = 2, c.Windows+1
	}
	return c
}

var (
	everyoneLimits = []stint.Limit{stint.PerHour(huge)}
	oneWindow      = question{limits: []stint.Limit{stint.PerMinute(1000)}}
	twoWindows     = question{limits: []stint.Limit{stint.PerMinute(1000), stint.PerHour(20_000)}}
	threeWindows   = question{limits: []stint.Limit{
		stint.PerMinute(1000), stint.PerHour(20_000), stint.PerDay(100_000),
	}}
	twoSubjects = question{limits: oneWindow.limits, everyone: true}
	fourAndTwo  = question{limits: threeWindows.limits, everyone: true}
)

// sizingLoad is callers that ask in some way.
type sizingLoad struct {
	way       sizing.Way // without its costs
	keys      int
	processes int           // each has connections and batches of its own
	pause     time.Duration // of a caller between two decisions, on average
	settle    bool          // every decision is refunded
	questions []question    // in turn
}

// open connects the processes of a load. Their stores wait for Redis: what is decided without it
// costs it nothing.
func (l *sizingLoad) open(ctx context.Context, addr string) (redisDecider, error) {
	var stores []stint.Store
	var closers []func()
	d := redisDecider{close: func() {
		for _, f := range closers {
			f()
		}
	}}
	for range max(l.processes, 1) {
		store, err := redisstore.Open(ctx, redisstore.Config{URL: "redis://" + addr})
		if err != nil {
			d.close()
			return redisDecider{}, err
		}
		if !l.way.Batched {
			stores, closers = append(stores, store), append(closers, func() { store.Close() })
			continue
		}
		all, err := resilience.New(store, resilience.Config{
			Failure: stint.FailurePolicy{Mode: stint.FailError, Budget: 5 * time.Second},
			Logger:  slog.New(slog.DiscardHandler),
		})
		if err != nil {
			store.Close()
			d.close()
			return redisDecider{}, err
		}
		stores, closers = append(stores, all), append(closers, func() { all.Close(); store.Close() })
	}
	d.allow = func(ctx context.Context, key string, _ int64) (bool, int64, error) {
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(l.pause)))
		n := len(key)
		which := int(key[n-1]-'0') + 10*int(key[n-2]-'0') // subjects are numbered
		store := stores[which%len(stores)]
		answer, err := store.Take(ctx, l.questions[which%len(l.questions)].of(key))
		if err == nil && l.settle {
			_, err = store.Amend(ctx, answer.Charge, stint.Amendment{Kind: stint.AmendSettle})
		}
		return err == nil && answer.Allowed && !answer.Degraded, 0, err
	}
	return d, nil
}

// spend presses and returns what that cost servers and this process.
func spend(ctx context.Context, servers []*redisServer, d redisDecider, walkers []*walker, length time.Duration) (
	load, sizing.Cost, error) {
	before, err := spentBy(ctx, servers)
	if err != nil {
		return load{}, sizing.Cost{}, err
	}
	did, err := press(ctx, servers[0], d, walkers, length)
	if err != nil {
		return load{}, sizing.Cost{}, err
	}
	after, err := spentBy(ctx, servers)
	return did, after.Plus(-1, before), err
}

// spentBy returns what servers and this process have used so far.
func spentBy(ctx context.Context, servers []*redisServer) (n sizing.Cost, err error) {
	for _, s := range servers {
		for _, sum := range []struct {
			into    *float64
			section string
			names   []string
		}{
			{&n.CPU, "cpu", []string{"used_cpu_user", "used_cpu_sys"}},
			{&n.In, "stats", []string{"total_net_input_bytes"}},
			{&n.Out, "stats", []string{"total_net_output_bytes"}},
			{&n.Replicated, "replication", []string{"master_repl_offset"}},
		} {
			v, err := s.infoNumber(ctx, sum.section, sum.names...)
			if err != nil {
				return n, err
			}
			*sum.into += v
		}
	}
	own, err := ownCPU()
	n.CPU, n.Client = n.CPU*1e6, float64(own.Microseconds())
	n.Out -= n.Replicated
	return n, err
}

// sized is what a load measured, a number for each round.
type sized struct{ rate, cpu, in, out, replicated, client contest.Series }

// cost is the medians.
func (m *sized) cost() sizing.Cost {
	return sizing.Cost{CPU: m.cpu.Median(), In: m.in.Median(), Out: m.out.Median(), Replicated: m.replicated.Median(),
		Client: m.client.Median()}
}

func (m *sized) line(name string) []string {
	return []string{name, contest.Count(int64(m.rate.Median())), plusMinus(m.cpu), plusMinus(m.in), plusMinus(m.out),
		plusMinus(m.replicated), plusMinus(m.client)}
}

var sizedHeader = []string{"", "decisions a second", "CPU, µs", "bytes in", "bytes out", "replicated", "client CPU, µs"}

// measure asks for some time, at an address that leads to all of the servers.
func (l *sizingLoad) measure(ctx context.Context, s contest.Settings, addr string, servers ...*redisServer) (
	*sized, error) {
	for _, server := range servers {
		if err := server.do(ctx, "FLUSHALL").Error(); err != nil {
			return nil, err
		}
	}
	d, err := l.open(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer d.close()
	walkers := pattern{subjectKeys(l.keys), 1}.walkers(l.way.Callers * max(l.processes, 1))
	length := contest.Pick(s, time.Second, 300*time.Millisecond)
	if _, err := press(ctx, servers[0], d, walkers, 3*length); err != nil { // most subjects have asked
		return nil, err
	}
	m := new(sized)
	for range s.Rounds {
		did, spent, err := spend(ctx, servers, d, walkers, length)
		if err != nil {
			return nil, err
		}
		if did.allowed < 1 {
			return nil, fmt.Errorf("a share of %.3f was allowed; want all", did.allowed)
		}
		m.rate = append(m.rate, did.perSecond)
		for _, figure := range []struct {
			into  *contest.Series
			spent float64
		}{
			{&m.cpu, spent.CPU}, {&m.in, spent.In}, {&m.out, spent.Out}, {&m.replicated, spent.Replicated},
			{&m.client, spent.Client},
		} {
			*figure.into = append(*figure.into, figure.spent/did.decisions)
		}
	}
	return m, nil
}

// runSizing measures what decisions and subjects cost a Redis with a replica: the figures of
// internal/sizing, from which docs/sizing.md is computed, and whether they hold for other loads.
func runSizing(ctx context.Context, s contest.Settings, r *contest.Report) error {
	p, err := startReplicas(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	ways, err := sizeDecisions(ctx, s, r, p.master)
	if err != nil {
		return err
	}
	if err := sizeSubjects(ctx, r, p.master); err != nil {
		return err
	}
	if err := sizeProcesses(ctx, s, r, p.master); err != nil {
		return err
	}
	if err := sizeRates(ctx, s, r, p.master, ways); err != nil {
		return err
	}
	if err := checkModel(ctx, s, r, p.master, ways); err != nil {
		return err
	}
	if err := sizeLeases(ctx, r, p.master); err != nil {
		return err
	}
	return sizeShards(ctx, s, r)
}

// sizeDecisions measures the rows of internal/sizing. It returns its ways with what was measured.
func sizeDecisions(ctx context.Context, s contest.Settings, r *contest.Report, server *redisServer) (
	[]sizing.Way, error) {
	var lines [][]string
	row := func(name string, l sizingLoad) (sizing.Cost, error) {
		m, err := l.measure(ctx, s, server.addr, server)
		if err != nil {
			return sizing.Cost{}, fmt.Errorf("%s: %w", name, err)
		}
		lines = append(lines, m.line(name))
		return m.cost(), nil
	}
	var ways []sizing.Way
	for _, known := range sizing.Ways {
		way := *known
		for _, kind := range []struct {
			name string
			question
			into *sizing.Cost
		}{
			{"one window", oneWindow, &way.One}, {"three windows", threeWindows, &way.Three},
			{"two subjects", twoSubjects, &way.Two},
		} {
			var err error
			*kind.into, err = row(kind.name+", "+way.Name,
				sizingLoad{way: way, keys: manyKeys, questions: []question{kind.question}})
			if err != nil {
				return nil, err
			}
		}
		ways = append(ways, way)
	}
	hot := question{limits: everyoneLimits}
	if _, err := row("one window, 100 subjects, "+sizing.Batched256.Name,
		sizingLoad{way: sizing.Batched256, keys: 100, questions: []question{hot}}); err != nil {
		return nil, err
	}
	if _, err := row("one window, plain, decided and refunded",
		sizingLoad{way: sizing.Plain, keys: manyKeys, questions: []question{oneWindow}, settle: true}); err != nil {
		return nil, err
	}
	r.Heading("Sizing, what a decision costs Redis", "A server with a replica; "+contest.Count(manyKeys)+
		" subjects in turn unless it says otherwise. Two subjects: the caller and everyone, with one window each. "+
		"Bytes are those on the connections of clients, both ways, and to the replica. The client is the process that asks.")
	r.Table(sizedHeader, lines)
	return ways, nil
}
