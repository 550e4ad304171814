package observe_test

import (
	"context"
	"testing"

	"github.com/stint-limiter/stint/observe"
)

// BenchmarkObserveBesideShadow: what it costs to count an allowed request where nothing is in
// shadow, where something is that does not match, and where it does.
func BenchmarkObserveBesideShadow(b *testing.B) {
	for _, test := range []struct{ name, text, path string }{
		{"none", `tiers: [{name: anyone, identity: ip, limits: 100000000/1h}]`, "/"},
		{"other path", inShadow, "/"},
		{"judged", inShadow, "/trial"},
	} {
		b.Run(test.name, func(b *testing.B) {
			m := observe.New(observe.Config{Logger: discard})
			defer m.Close()
			kept := &keeper{}
			ask(b, newGuard(b, newMemory(b), test.text, kept), 1, get(test.path))
			kept.list[0].Took = 0
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				m.Observe(ctx, &kept.list[0])
			}
		})
	}
}
