package policy_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/examples/tiers"
	"github.com/stint-limiter/stint/policy"
)

// BenchmarkDecide is a verdict by the shipped example on the memory store. The verdict itself is
// the caller's to allocate.
func BenchmarkDecide(b *testing.B) {
	guard, err := policy.NewGuard(memory(b, nil), parse(b, string(tiers.YAML)), policy.GuardConfig{Logger: discard})
	if err != nil {
		b.Fatal(err)
	}
	for name, in := range map[string]policy.Input{
		"denied": {Method: "GET", Path: "/elsewhere", Peer: client, Header: http.Header{}},
		"allowed": {Method: "GET", Path: "/elsewhere", Peer: client, Header: http.Header{},
			Claims: claims{"service": "billing"}},
		"route": {Method: "GET", Path: "/api/simulation/9/frames", Peer: client, Header: http.Header{},
			Claims: claims{"user": "7", "plan": "enterprise"}},
		"odd":      {Method: "POST", Path: "//api//v1;a=b/x%2Fy/./z.json", Peer: client, Header: http.Header{}},
		"worst":    worst(strings.Repeat("a/", 250)),
		"too many": worst(strings.Repeat("//x", 300)),
		"skipped":  {Method: "GET", Path: "/static/site.css", Peer: client, Header: http.Header{}},
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

// worst is a request that is as much work as one can be: near the bound on readings, with all
// methods, and with cookies up to the bound on headers.
func worst(path string) policy.Input {
	return policy.Input{
		Method: "POST", Path: "//X/" + path + `/../B%2541;c/..\LOGIN#.%2523`, Peer: client,
		Header: http.Header{
			"X-Http-Method-Override": {"GET,PUT,DELETE,PATCH,HEAD,OPTIONS"},
			"Cookie":                 {strings.Repeat("session=abc;", 5000)},
			"X-Device-Fingerprint":   {"a", "b"},
		},
	}
}
