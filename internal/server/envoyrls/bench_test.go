package envoyrls_test

import (
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stint-limiter/stint/internal/server/envoyrls"
)

// BenchmarkShouldRateLimit is the service without gRPC, over memory.
func BenchmarkShouldRateLimit(b *testing.B) {
	config := parse(b, `
domain: d
descriptors:
  - {key: k, rate_limit: {unit: hour, requests_per_unit: 4000000000}}
  - {key: no, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: "n", value: "*-x", rate_limit: {unit: hour, requests_per_unit: 4000000000}}
`)
	for _, c := range []struct {
		name    string
		window  envoyrls.Window
		request *rlsv3.RateLimitRequest
	}{
		{"allowed", envoyrls.Sliding, ask("d", "k=1")},
		{"denied", envoyrls.Sliding, ask("d", "no=1")},
		{"two", envoyrls.Sliding, ask("d", "k=1", "n=1-x")},
		{"fixed", envoyrls.Fixed, ask("d", "k=1")},
		{"fixed-two", envoyrls.Fixed, ask("d", "k=1", "n=1-x")},
	} {
		b.Run(c.name, func(b *testing.B) {
			service := newService(b, inMemory(b, nil), config, envoyrls.Options{Window: c.window})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := service.ShouldRateLimit(b.Context(), c.request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
