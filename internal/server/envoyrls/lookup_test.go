package envoyrls_test

import (
	"context"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/policy"
)

const lookupRules = `
domain: "a:b"
descriptors:
  - key: plain
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: "odd=,%"
    rate_limit: {unit: second, requests_per_unit: 3}
    descriptors:
      - key: inner
        value: "x,y"
        rate_limit: {unit: hour, requests_per_unit: 7}
  - key: path
    value: "/files/*"
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 5}
  - key: free
    rate_limit: {unlimited: true}
`

func TestLimitsOf(t *testing.T) {
	config := parse(t, lookupRules)
	for _, test := range []struct{ subject, rule, sliding, fixed string }{
		{"envoy:a%3ab:plain=v", "a:b.plain", "10/1m", "10/1m fixed"},
		{"envoy:a%3ab:plain=", "a:b.plain", "10/1m", "10/1m fixed"},
		{"envoy:a%3ab:odd%3d%2c%25=v", "a:b.odd=,%", "3/1s", "3/1s fixed"},
		{"envoy:a%3ab:odd%3d%2c%25=v,inner=x%2cy", "a:b.odd=,%.inner_x,y", "7/1h", "7/1h fixed"},
		{"envoy:a%3ab:path=/files/*", "a:b.path_/files/*", "5/1d", "5/1d fixed"},
		// What no counter is called.
		{"envoy:a%3ab:path=/files/1", "", "", ""},
		{"envoy:a%3ab:plain=v,more=w", "", "", ""},
		{"envoy:a%3ab:free=v", "", "", ""},
		{"envoy:a%3ab:plain", "", "", ""},
		{"envoy:a%3ab:plain=%zz", "", "", ""},
		{"envoy:a%zz:plain=v", "", "", ""},
		{"envoy:other:plain=v", "", "", ""},
		{"envoy:a:b:plain=v", "", "", ""},
		{"envoy:", "", "", ""},
		{"envoy#0123", "", "", ""},
		{"user:42", "", "", ""},
	} {
		for window, want := range map[envoyrls.Window]string{
			envoyrls.Sliding: test.sliding, envoyrls.Fixed: test.fixed} {
			rule, limits := config.LimitsOf(test.subject, window)
			got := ""
			if len(limits) == 1 {
				got = limits[0].String()
			}
			if rule != test.rule || got != want || len(limits) > 1 {
				t.Errorf("%s: got %q, %v; want %q, %q", test.subject, rule, limits, test.rule, want)
			}
		}
	}
}

type observerFunc func(*policy.Verdict)

func (f observerFunc) Observe(_ context.Context, e stint.Event) { f(e.(*policy.Verdict)) }

// TestLimitsOfCounters: a counter's limits are found by its subject.
func TestLimitsOfCounters(t *testing.T) {
	config := parse(t, lookupRules)
	var subjects []string
	service := newService(t, inMemory(t, nil), config, envoyrls.Options{
		Observer: observerFunc(func(v *policy.Verdict) { subjects = append(subjects, v.Results[0].Subject) }),
	})
	for _, r := range []*rlsv3.RateLimitRequest{
		entries("a:b", "plain", "%3d,="), entries("a:b", "odd=,%", "=", "inner", "x,y"), entries("a:b", "path", "/files/1"),
	} {
		decide(t, service, r)
	}
	for _, subject := range subjects {
		if _, limits := config.LimitsOf(subject, envoyrls.Sliding); len(limits) != 1 {
			t.Errorf("%s has %d limits, want 1", subject, len(limits))
		}
	}
	if len(subjects) != 3 {
		t.Errorf("%d were counted, want 3", len(subjects))
	}
}
