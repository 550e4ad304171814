package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/bench/internal/process"
	"github.com/stint-limiter/stint/internal/sizing"
	"github.com/stint-limiter/stint/redisstore"
)

// question is a kind of request: its windows, and whether it also has a subject for everyone.
type question struct {
	limits   []stint.Limit
	everyone bool
}

func (q *question) of(key string) stint.Request {
	r := stint.Request{Claims: []stint.Claim{{Subject: key, Limits: q.limits, Cost: 1}}}
	if q.everyone {
		r.Claims = append(r.Claims, stint.Claim{Subject: "everyone", Limits: everyoneLimits, Cost: 1, Shared: true})
	}
	return r
}

// calls returns the input of the model.
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

// sizingLoad describes a load: callers that use Redis in some way.
type sizingLoad struct {
	way       sizing.Way // without its costs
	keys      int
	processes int           // each has its own connections and batches
	pause     time.Duration // average pause of a caller between two decisions
	settle    bool          // every decision is refunded
	questions []question    // in turn
}

// waitForRedis makes decisions wait for Redis: decisions made without Redis would cost it nothing.
var waitForRedis = stint.FailurePolicy{Mode: stint.FailError, Budget: 5 * time.Second}

// open connects the processes of a load.
func (l *sizingLoad) open(ctx context.Context, addr string) redisDecider {
	var stores []closableStore
	d := redisDecider{name: l.way.Name, close: func() {
		for _, store := range stores {
			store.Close()
		}
	}}
	for range max(l.processes, 1) {
		if l.way.Batched {
			stores = append(stores, openStore(ctx, addr, waitForRedis))
		} else {
			stores = append(stores, contest.Must(redisstore.Open(ctx, redisstore.Config{URL: "redis://" + addr})))
		}
	}
	d.allow = func(ctx context.Context, key string, _ int64) (bool, int64, error) {
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(l.pause)))
		n := len(key)
		which := int(key[n-1]-'0') + 10*int(key[n-2]-'0') // the last two digits of a subject's number
		store := stores[which%len(stores)]
		answer, err := store.Take(ctx, l.questions[which%len(l.questions)].of(key))
		if err == nil && l.settle {
			_, err = store.Amend(ctx, answer.Charge, stint.Amendment{Kind: stint.AmendSettle})
		}
		return err == nil && answer.Allowed && !answer.Degraded, 0, err
	}
	return d
}

// spend puts a load on servers, and returns what that cost them and this process.
func spend(ctx context.Context, servers []*redisServer, d redisDecider, walkers []*walker, length time.Duration) (
	load, sizing.Cost) {
	before := spentBy(ctx, servers)
	did := press(ctx, servers[0], d, walkers, length)
	return did, spentBy(ctx, servers).Plus(-1, before)
}

// spentBy returns the resources that servers and this process have used so far.
func spentBy(ctx context.Context, servers []*redisServer) (n sizing.Cost) {
	for _, s := range servers {
		n.CPU += s.cpu(ctx) * 1e6
		n.In += s.infoNumber(ctx, "stats", "total_net_input_bytes")
		n.Out += s.infoNumber(ctx, "stats", "total_net_output_bytes")
		n.Replicated += s.infoNumber(ctx, "replication", "master_repl_offset")
	}
	n.Out -= n.Replicated
	n.Client = float64(process.OwnCPU().Microseconds())
	return n
}

// sized holds the measurements of a load, a number for each round.
type sized struct{ rate, cpu, in, out, replicated, client contest.Series }

// cost returns the medians.
func (m *sized) cost() sizing.Cost {
	return sizing.Cost{CPU: m.cpu.Median(), In: m.in.Median(), Out: m.out.Median(), Replicated: m.replicated.Median(),
		Client: m.client.Median()}
}

func (m *sized) line(name string) []string {
	return []string{name, contest.Count(int64(m.rate.Median())), plusMinus(m.cpu), plusMinus(m.in), plusMinus(m.out),
		plusMinus(m.replicated), plusMinus(m.client)}
}

var sizedHeader = []string{"", "decisions a second", "CPU, µs", "bytes in", "bytes out", "replicated", "client CPU, µs"}

// measure runs the load for some time, at an address that leads to all of the servers.
func (l *sizingLoad) measure(ctx context.Context, s contest.Settings, addr string, servers ...*redisServer) *sized {
	for _, server := range servers {
		contest.OK(server.do(ctx, "FLUSHALL").Error())
	}
	d := l.open(ctx, addr)
	defer d.close()
	walkers := pattern{subjectKeys(l.keys), 1}.walkers(l.way.Callers * max(l.processes, 1))
	length := contest.Pick(s, time.Second, 300*time.Millisecond)
	press(ctx, servers[0], d, walkers, 3*length) // after that, most subjects have been used
	m := new(sized)
	for range s.Rounds {
		did, spent := spend(ctx, servers, d, walkers, length)
		if did.allowed < 1 {
			contest.Failf("%s: a share of %.3f was allowed; want all", l.way.Name, did.allowed)
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
	return m
}

// runSizing measures what decisions and subjects cost a Redis with a replica: the numbers of
// internal/sizing, from which docs/sizing.md is computed. It also measures whether they hold for
// other loads.
func runSizing(ctx context.Context, s contest.Settings, r *contest.Report) {
	pair := startReplicated(ctx)
	defer pair.Close()
	ways := sizeDecisions(ctx, s, r, pair[0])
	sizeSubjects(ctx, r, pair[0])
	sizeProcesses(ctx, s, r, pair[0])
	sizeRates(ctx, s, r, pair[0], ways)
	checkModel(ctx, s, r, pair[0], ways)
	sizeLeases(ctx, r, pair[0])
	sizeShards(ctx, s, r)
}

// sizeDecisions measures the rows of internal/sizing. It returns its ways with the measured costs.
func sizeDecisions(ctx context.Context, s contest.Settings, r *contest.Report, server *redisServer) []sizing.Way {
	var lines [][]string
	row := func(name string, l sizingLoad) sizing.Cost {
		m := l.measure(ctx, s, server.addr, server)
		lines = append(lines, m.line(name))
		return m.cost()
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
			*kind.into = row(kind.name+", "+way.Name,
				sizingLoad{way: way, keys: manyKeys, questions: []question{kind.question}})
		}
		ways = append(ways, way)
	}
	hot := question{limits: everyoneLimits}
	row("one window, 100 subjects, "+sizing.Batched256.Name,
		sizingLoad{way: sizing.Batched256, keys: 100, questions: []question{hot}})
	row("one window, plain, decided and refunded",
		sizingLoad{way: sizing.Plain, keys: manyKeys, questions: []question{oneWindow}, settle: true})
	r.Heading("Sizing, what a decision costs Redis", "A server with a replica; "+contest.Count(manyKeys)+
		" subjects in turn unless it says otherwise. Two subjects: the caller and everyone, with one window each. "+
		"Bytes are those on the connections of clients, both ways, and to the replica. The client is the process that asks.")
	r.Table(sizedHeader, lines)
	return ways
}
