package redisstore_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
)

// scriptBench is a kind of call whose cost in Redis is measured.
type scriptBench struct {
	name   string
	limits []stint.Limit
	step   time.Duration // from one request to the next; 0: 700 ms
	adjust func(r *stint.Request, i int)
	then   func(b *testing.B, s *redisstore.Store, calls []*driver.Call) // what follows, measured as well
	alone  bool                                                          // only measure what follows
	flight int                                                           // requests of other subjects in one batch
	held   int                                                           // open holds of the subject before that
	unit   string                                                        // kind of call to compare with; "": take
}

func scriptBenches() []scriptBench {
	one := []stint.Limit{stint.PerMinute(100)}
	three := []stint.Limit{stint.PerMinute(100), stint.PerHour(1000), stint.Per(10000, 24*time.Hour)}
	thousand, stock := []stint.Limit{stint.PerMinute(1000)}, []stint.Limit{stint.Per(1_000_000, 48*time.Hour)}
	places := []stint.Limit{stint.Concurrency(100, time.Minute)}
	waits := func(r *stint.Request, _ int) { r.Mode, r.MaxWait = stint.ModeReserve, 10*time.Second }
	hasID := func(r *stint.Request, i int) { r.ID = strconv.Itoa(i) }
	costly := func(r *stint.Request, _ int) { r.Claims[0].Cost = 3 }
	holds := func(r *stint.Request, _ int) { r.Hold = 5 * time.Minute }
	return []scriptBench{
		{name: "take", limits: one},
		{name: "three", limits: three},
		{name: "denied", limits: one, step: time.Millisecond},
		{name: "bucket", limits: []stint.Limit{{Algorithm: stint.AlgorithmBucket, Max: 100, Window: time.Minute}}},
		{name: "bans", limits: one, adjust: func(r *stint.Request, _ int) {
			r.Bans = &stint.BanPolicy{After: 10, Within: time.Minute, Durations: []time.Duration{time.Minute}}
		}},
		{name: "peek", limits: three, then: peek, alone: true},
		{name: "wait", limits: one, adjust: waits},
		{name: "waits", limits: one, step: 590 * time.Millisecond, adjust: waits},
		{name: "id", limits: one, adjust: hasID},
		{name: "lease", limits: []stint.Limit{stint.PerMinute(10_000).WithLease()}, adjust: func(r *stint.Request, _ int) {
			r.Claims[0].Cost = 100
			*r = driver.WithTerms(*r, driver.Terms{Lease: 2 * time.Second})
		}},
		{name: "places", limits: places},
		{name: "beside", limits: append(slices.Clone(one), places...)},
		{name: "settle", limits: thousand, adjust: costly, then: settleTo(2), alone: true},
		{name: "refund", limits: one, then: settleTo(0), alone: true},
		{name: "refund-id", limits: one, then: settleTo(0), alone: true, adjust: hasID},
		{name: "flight", limits: one, flight: 64},
		{name: "flight3", limits: three, flight: 64, unit: "flight"},
		{name: "settles", limits: thousand, adjust: costly, then: settleTo(2), alone: true, flight: 64, unit: "flight"},
		{name: "holds", limits: thousand, adjust: holds, then: settleTo(2), flight: 64, unit: "flight"},
		{name: "holds-stock", limits: stock, adjust: holds, then: settleTo(2), flight: 64, unit: "flight"},
		{name: "unheld", limits: stock},
		{name: "held", limits: stock, held: 10_000, unit: "unheld"},
	}
}

// Calls before those that are measured, and those.
const warm, measured = 150, 100

// BenchmarkScript counts the instructions that Redis executes in its scripts, per request of each
// kind, also as a ratio to a plain take. Times differ from run to run; these counts hardly do.
func BenchmarkScript(b *testing.B) {
	c := newCounter(b)
	counts := map[string]float64{}
	for _, kind := range scriptBenches() {
		b.Run(kind.name, func(b *testing.B) {
			for range b.N {
				counts[kind.name] = c.measure(b, &kind)
			}
			unit := cmp.Or(kind.unit, "take")
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(counts[kind.name], "instructions/request")
			b.ReportMetric(counts[kind.name]/counts[unit], unit+"s/request")
		})
	}
}

// counter is a Redis that runs under callgrind, which counts the instructions in scripts, and
// writes a file with the count after every ECHO.
type counter struct {
	server *redistest.Server
	out    string
	files  int
}

func newCounter(b *testing.B) *counter {
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		b.Fatal("valgrind not found: apt-get install valgrind")
	}
	dir := b.TempDir()
	c := &counter{out: filepath.Join(dir, "out")}
	run := filepath.Join(dir, "redis-server")
	script := fmt.Sprintf("#!/bin/sh\nexec %s --tool=callgrind --callgrind-out-file=%s --toggle-collect=evalGenericCommand"+
		" --dump-after=echoCommand %s \"$@\"\n", valgrind, c.out, cmp.Or(os.Getenv(redistest.BinaryEnv), "redis-server"))
	if err := os.WriteFile(run, []byte(script), 0o700); err != nil {
		b.Fatal(err)
	}
	b.Setenv(redistest.BinaryEnv, run)
	c.server = redistest.Start(b)
	return c
}

// count returns the instructions since the last count.
func (c *counter) count(b *testing.B) float64 {
	c.server.CLI(b, "ECHO", "")
	c.files++
	text := testkit.Must(os.ReadFile(fmt.Sprintf("%s.%d", c.out, c.files)))(b)
	_, total, _ := strings.Cut(string(text), "\ntotals: ")
	n := testkit.Must(strconv.Atoi(strings.TrimSpace(total)))(b)
	return float64(n)
}

// measure returns how many instructions a request of a kind takes.
func (c *counter) measure(b *testing.B, kind *scriptBench) float64 {
	now := time.Unix(1_700_000_000, 0)
	s := open(b, c.server.URL(), adjusted(func(o *rueidis.ClientOption) {
		o.Dialer.Timeout, o.ConnWriteTimeout = time.Minute, time.Minute
	}))
	s.SetClock(func() time.Time { return now })
	for i := range kind.held {
		now = now.Add(5 * time.Second)
		r := stint.Request{Hold: stint.MaxHold, Claims: []stint.Claim{{Subject: kind.name + "/0", Cost: 1, Limits: kind.limits}}}
		if d, err := s.Take(b.Context(), r); err != nil || !d.Allowed {
			b.Fatal(i, d, err)
		}
	}
	sum, step := 0.0, cmp.Or(kind.step, 700*time.Millisecond)
	for i := range warm + measured {
		now = now.Add(step - step/2)
		if i == warm {
			c.count(b)
		}
		calls := kind.take(b, s, i)
		if kind.alone && i >= warm {
			c.count(b)
		}
		now = now.Add(step / 2)
		if kind.then != nil {
			kind.then(b, s, calls)
		}
		if i == warm+measured-1 || kind.alone && i >= warm {
			sum += c.count(b)
		}
	}
	return sum / float64(measured*max(kind.flight, 1))
}

// take makes the i-th request, or flight of requests.
func (k *scriptBench) take(b *testing.B, s *redisstore.Store, i int) []*driver.Call {
	var calls []*driver.Call
	for j := range max(k.flight, 1) {
		r := stint.Request{Claims: []stint.Claim{{Subject: fmt.Sprint(k.name, "/", j), Cost: 1, Limits: k.limits}}}
		if k.adjust != nil {
			k.adjust(&r, i)
		}
		calls = append(calls, &driver.Call{Request: r})
	}
	if k.flight > 0 {
		s.TakeBatch(b.Context(), calls)
	} else {
		calls[0].Decision, calls[0].Err = s.Take(b.Context(), calls[0].Request)
	}
	for _, call := range calls {
		if call.Err != nil {
			b.Fatal(k.name, call.Err)
		}
	}
	return calls
}

// peek asks again for what a request asked for, without charging it.
func peek(b *testing.B, s *redisstore.Store, calls []*driver.Call) {
	calls[0].Request.Mode = stint.ModePeek
	testkit.Must(s.Take(b.Context(), calls[0].Request))(b)
}

// settleTo settles charges.
func settleTo(cost int64) func(b *testing.B, s *redisstore.Store, calls []*driver.Call) {
	return func(b *testing.B, s *redisstore.Store, calls []*driver.Call) {
		var amends []*driver.AmendCall
		for _, call := range calls {
			a := stint.Amendment{Kind: stint.AmendSettle, Cost: cost}
			amends = append(amends, &driver.AmendCall{Charge: call.Decision.Charge, Amendment: a})
		}
		s.AmendBatch(b.Context(), amends)
		for _, a := range amends {
			if !a.Amended.Changed {
				b.Fatal(a.Err, a.Amended)
			}
		}
	}
}
