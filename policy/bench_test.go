package policy_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/examples/tiers"
	"github.com/stint-limiter/stint/policy"
)

// BenchmarkDecide is a verdict by the shipped example on the memory store. The verdict itself is
// the caller's to allocate.
func BenchmarkDecide(b *testing.B) {
	guard := benchGuard(b, tiers.YAML)
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

// BenchmarkManyPolicies is the worst request under policies that each have a path and divide their
// counts.
func BenchmarkManyPolicies(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			text := "tiers: [{name: all, identity: ip, limits: 100/1m}]\npolicies:\n"
			for i := range n {
				text += fmt.Sprintf("  - {name: p%d, match: {path: \"/api/r%d/{id}/x\"}, per: id, limits: 10/1m}\n", i, i)
			}
			guard := benchGuard(b, []byte(text))
			path := "/api/r5/%" + strings.Repeat("25", 28) + "41/X" // 30 readings
			in := policy.Input{Method: "POST", Path: path, Peer: client}
			v := new(policy.Verdict)
			for b.Loop() {
				if err := guard.Decide(context.Background(), &in, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchGuard(b *testing.B, text []byte) *policy.Guard {
	guard, err := policy.NewGuard(memory(b, nil), parse(b, string(text)), policy.GuardConfig{Logger: discard})
	if err != nil {
		b.Fatal(err)
	}
	return guard
}
