package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
)

// scriptBench is a kind of call whose time in Redis is measured.
type scriptBench struct {
	name   string
	limits []stint.Limit
	step   time.Duration // from one request to the next
	adjust func(r *stint.Request, i int)
	settle *int64 // to settle to at once; what is measured is both
	flight int    // requests of other subjects in one batch
	held   int    // open holds of the subject before that
}

func scriptBenches() []scriptBench {
	one := []stint.Limit{stint.PerMinute(100)}
	three := []stint.Limit{stint.PerMinute(100), stint.PerHour(1000), stint.Per(10000, 24*time.Hour)}
	bucket := []stint.Limit{{Algorithm: stint.AlgorithmBucket, Max: 100, Window: time.Minute}}
	places := []stint.Limit{stint.AtOnce(100, time.Minute)}
	const step = 700 * time.Millisecond
	zero, two := int64(0), int64(2)
	return []scriptBench{
		{name: "take", limits: one, step: step},
		{name: "three", limits: three, step: step},
		{name: "denied", limits: one, step: time.Millisecond},
		{name: "bucket", limits: bucket, step: step},
		{name: "bans", limits: one, step: step, adjust: func(r *stint.Request, _ int) {
			r.Bans = &stint.BanPolicy{After: 10, Within: time.Minute, Durations: []time.Duration{time.Minute}}
		}},
		{name: "peek", limits: three, step: step, adjust: func(r *stint.Request, i int) {
			if i >= 300 {
				r.Mode = stint.ModePeek
			}
		}},
		{name: "wait", limits: one, step: step, adjust: func(r *stint.Request, _ int) {
			r.Mode, r.MaxWait = stint.ModeReserve, 10*time.Second
		}},
		{name: "waits", limits: one, step: 590 * time.Millisecond, adjust: func(r *stint.Request, _ int) {
			r.Mode, r.MaxWait = stint.ModeReserve, 10*time.Second
		}},
		{name: "id", limits: one, step: step, adjust: func(r *stint.Request, i int) { r.ID = strconv.Itoa(i) }},
		{name: "places", limits: places, step: step},
		{name: "beside", limits: append(slices.Clone(one), places...), step: step},
		{name: "settle", limits: one, step: step, settle: &two, adjust: func(r *stint.Request, _ int) {
			r.Claims[0].Cost = 3
			r.Claims[0].Limits = []stint.Limit{stint.PerMinute(1000)}
		}},
		{name: "refund", limits: one, step: step, settle: &zero},
		{name: "refund-id", limits: one, step: step, settle: &zero,
			adjust: func(r *stint.Request, i int) { r.ID = strconv.Itoa(i) }},
		{name: "flight", limits: one, step: step, flight: 64},
		{name: "flight3", limits: three, step: step, flight: 64},
		{name: "holds", limits: []stint.Limit{stint.PerMinute(1000)}, step: step, flight: 64, settle: &two,
			adjust: func(r *stint.Request, _ int) { r.Hold = 5 * time.Minute }},
		{name: "holds-stock", limits: []stint.Limit{stint.PerDay(1_000_000)}, step: step, flight: 64, settle: &two,
			adjust: func(r *stint.Request, _ int) { r.Hold = 5 * time.Minute }},
		{name: "unheld", limits: []stint.Limit{stint.Per(1_000_000, 48*time.Hour)}, step: step},
		{name: "held", limits: []stint.Limit{stint.Per(1_000_000, 48*time.Hour)}, step: step, held: 10_000},
		{name: "settles", limits: []stint.Limit{stint.PerMinute(1000)}, step: step, flight: 64, settle: &two},
	}
}

// BenchmarkScript measures the time that Redis spends in the scripts, by INFO commandstats: every
// kind of call in turn, on one server, and per call the median of the rounds.
func BenchmarkScript(b *testing.B) {
	url := redistest.Start(b).URL()
	now := int64(1_700_000_000_000_000)
	o, err := rueidis.ParseURL(url)
	if err != nil {
		b.Fatal(err)
	}
	o.DisableCache = true
	conn, err := rueidis.NewClient(o)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()

	kinds := scriptBenches()
	// One store per kind: a store also sends the sets of limits that it has seen other kinds leave.
	stores := make([]*redisstore.Store, len(kinds))
	for k := range kinds {
		s, err := redisstore.Open(b.Context(), redisstore.Config{URL: url})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		s.SetClock(func() time.Time { return time.UnixMicro(now) })
		stores[k] = s
	}
	clocks, counts, micros := make([]int64, len(kinds)), make([]int, len(kinds)), make([][]float64, len(kinds))
	// measure returns what some calls of a kind take, per request.
	measure := func(k, times int) float64 {
		c, s := &kinds[k], stores[k]
		before := scriptMicros(b, conn)
		for range times {
			clocks[k] += c.step.Microseconds()
			now = clocks[k]
			var calls []*driver.Call
			for j := range max(c.flight, 1) {
				subject := fmt.Sprint(c.name, "/", j)
				r := stint.Request{Claims: []stint.Claim{{Subject: subject, Cost: 1, Limits: c.limits}}}
				if c.adjust != nil {
					c.adjust(&r, counts[k])
				}
				calls = append(calls, &driver.Call{Request: r})
			}
			counts[k]++
			if c.flight > 0 {
				s.TakeBatch(b.Context(), calls)
			} else {
				calls[0].Decision, calls[0].Err = s.Take(b.Context(), calls[0].Request)
			}
			for _, call := range calls {
				if call.Err != nil {
					b.Fatal(c.name, call.Err)
				}
			}
			if c.settle == nil {
				continue
			}
			var amends []*driver.AmendCall
			for _, call := range calls {
				a := stint.Amendment{Kind: stint.AmendSettle, Cost: *c.settle}
				amends = append(amends, &driver.AmendCall{Charge: call.Decision.Charge, Amendment: a})
			}
			s.AmendBatch(b.Context(), amends)
			for _, a := range amends {
				if a.Err != nil || !a.Amended.Changed {
					b.Fatal(c.name, a.Err, a.Amended)
				}
			}
		}
		return (scriptMicros(b, conn) - before) / float64(times*max(c.flight, 1))
	}
	for k := range kinds {
		clocks[k] = now
		for i := range kinds[k].held {
			now += 5_000_000 // over half a day
			r := stint.Request{Hold: stint.MaxHold, Claims: []stint.Claim{{Subject: kinds[k].name + "/0", Cost: 1,
				Limits: kinds[k].limits}}}
			if d, err := stores[k].Take(b.Context(), r); err != nil || !d.Allowed {
				b.Fatal(i, d, err)
			}
			clocks[k] = now
		}
		for range 15 {
			measure(k, 20)
		}
	}
	for range b.N {
		for _, k := range rand.Perm(len(kinds)) { // what one leaves to the garbage collector falls on the next
			micros[k] = append(micros[k], measure(k, 20))
		}
	}
	for k := range kinds {
		slices.Sort(micros[k])
		b.ReportMetric(micros[k][len(micros[k])/2], kinds[k].name+"-µs")
	}
}

// scriptMicros is how long scripts have run.
func scriptMicros(b *testing.B, c rueidis.Client) float64 {
	info, err := c.Do(b.Context(), c.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:"); ok {
			_, rest, _ = strings.Cut(rest, "usec=")
			text, _, _ := strings.Cut(rest, ",")
			micros, err := strconv.ParseFloat(text, 64)
			if err != nil {
				b.Fatal(err)
			}
			return micros
		}
	}
	b.Fatal("no script ran")
	return 0
}
