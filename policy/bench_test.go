package policy_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/examples/tiers"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// BenchmarkDecide is a verdict by the shipped example on the memory store. The verdict itself is
// the caller's to allocate.
func BenchmarkDecide(b *testing.B) {
	conf, err := config.Parse("stint.yaml", tiers.YAML)
	if err != nil {
		b.Fatal(err)
	}
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	guard, err := policy.NewGuard(store, conf.Set, policy.GuardConfig{Logger: discard})
	if err != nil {
		b.Fatal(err)
	}
	for name, in := range map[string]policy.Input{
		"denied": {Method: "GET", Path: "/elsewhere", Peer: client, Header: http.Header{}},
		"allowed": {Method: "GET", Path: "/elsewhere", Peer: client, Header: http.Header{},
			Claims: claims{"service": "billing"}},
		"route": {Method: "GET", Path: "/api/simulation/9/frames", Peer: client, Header: http.Header{},
			Claims: claims{"user": "7", "plan": "enterprise"}},
		"skipped": {Method: "GET", Path: "/static/site.css", Peer: client, Header: http.Header{}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			v := new(policy.Verdict)
			for b.Loop() {
				if err := guard.Decide(context.Background(), &in, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
