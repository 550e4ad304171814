package redisstore_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
)

// BenchmarkScript measures the time that Redis spends in the scripts, by INFO commandstats.
func BenchmarkScript(b *testing.B) {
	one := []stint.Limit{stint.PerMinute(100)}
	three := []stint.Limit{stint.PerMinute(100), stint.PerHour(1000), stint.Per(10000, 24*time.Hour)}
	for _, c := range []struct {
		name string
		r    stint.Request
		step time.Duration // from one request to the next
	}{
		{"one", stint.Request{Claims: []stint.Claim{{Cost: 1, Limits: one}}}, 700 * time.Millisecond},
		{"three", stint.Request{Claims: []stint.Claim{{Cost: 1, Limits: three}}}, 700 * time.Millisecond},
		{"denied", stint.Request{Claims: []stint.Claim{{Cost: 1, Limits: one}}}, time.Millisecond},
		{"bucket", stint.Request{Claims: []stint.Claim{{
			Cost: 1, Limits: []stint.Limit{{Algorithm: stint.AlgorithmBucket, Max: 100, Window: time.Minute}}}}},
			700 * time.Millisecond},
		{"peek", stint.Request{Claims: []stint.Claim{{Cost: 1, Limits: three}}, Mode: 1}, 700 * time.Millisecond},
		{"reserve", stint.Request{Claims: []stint.Claim{{Cost: 1, Limits: one}}, Mode: 2, MaxWait: 10 * time.Second},
			650 * time.Millisecond},
		{"id", stint.Request{Claims: []stint.Claim{{Cost: 1, Limits: one}}, ID: "x"}, 700 * time.Millisecond},
	} {
		b.Run(c.name, func(b *testing.B) {
			url := redistest.Start(b).URL()
			s, err := redisstore.OpenNow(b.Context(), redisstore.Config{URL: url})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			now := int64(1_700_000_000_000_000)
			s.SetClock(func() time.Time { return time.UnixMicro(now) })
			r := c.r
			r.Claims = slices.Clone(r.Claims)
			r.Claims[0].Subject = "benchmark"
			take := func(i int) {
				now += c.step.Microseconds()
				if r.ID != "" {
					r.ID = strconv.Itoa(i)
				}
				if _, err := s.Take(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
			for i := range 300 {
				take(i)
			}
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
			var chunks []float64
			before := scriptMicros(b, conn)
			for i := range b.N {
				take(1000 + i)
				if i%20 == 19 {
					after := scriptMicros(b, conn)
					chunks, before = append(chunks, after-before), after
				}
			}
			if len(chunks) > 0 {
				slices.Sort(chunks)
				b.ReportMetric(50*chunks[len(chunks)/20], "script-ns/op") // nearly the least: the machine may be busy
			}
		})
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
