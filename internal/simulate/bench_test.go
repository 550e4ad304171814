package simulate_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-limiter/stint/internal/loggen"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
)

// BenchmarkRun replays a log in the combined format. It reports lines per second.
func BenchmarkRun(b *testing.B) {
	const three = `limits: [120/1m burst 2x, 2000/1h, 20000/1d]`
	set := parse(b, `tiers: [{name: anyone, identity: ip, `+three+`}]`)
	shadow := parse(b, `tiers: [{name: anyone, identity: ip, `+three+`, shadow: true}]`)
	policies := parse(b, `
tiers: [{name: anyone, identity: ip, `+three+`}]
policies: [{name: reads, match: {method: GET}, limits: 60/1m}, {name: site, identity: everyone, limits: 1000000/1m}]
bans: {after: 20, within: 1m, durations: [1m, 5m]}
`)
	const lines = 300_000
	log := filepath.Join(b.TempDir(), "access.log")
	generate(b, log, loggen.Options{Lines: lines, Users: 20_000})
	for _, bench := range []struct {
		name    string
		options simulate.Options
	}{
		{"three windows", simulate.Options{Set: set}},
		{"policies", simulate.Options{Set: policies}},
		{"shadow", simulate.Options{Set: shadow}},
		{"against", simulate.Options{Set: set, Against: policies}},
		{"recommend", simulate.Options{Set: set, Recommend: []float64{0.999}}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				source, err := accesslog.Open([]string{log}, accesslog.Options{})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := simulate.Run(context.Background(), source, bench.options); err != nil {
					b.Fatal(err)
				}
				_ = source.Close()
			}
			b.ReportMetric(float64(b.N)*lines/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

func generate(t testing.TB, name string, o loggen.Options) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := loggen.Generate(file, o); err != nil {
		t.Fatal(err)
	}
}
