package envoyrls_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/policy"
)

func TestErrors(t *testing.T) {
	client := serve(t, newService(t, guardtest.Memory(t), parse(t, shop), envoyrls.Options{}))
	tests := []struct {
		name    string
		request *rlsv3.RateLimitRequest
		code    codes.Code
		message string
	}{
		{"no domain", ask("", "path=/"), codes.Unknown, "rate limit domain must not be empty"},
		{"neither", ask(""), codes.Unknown, "rate limit domain must not be empty"},
		{"no descriptors", ask("shop"), codes.Unknown, "rate limit descriptor list must not be empty"},
		{"no unit", bring(0, 1, 0, ask("shop", "path=/")), codes.InvalidArgument, "descriptors[0].limit"},
		{"a unit that is none", bring(1, 1, 99, ask("shop", "path=/", "path=/")), codes.InvalidArgument,
			"descriptors[1].limit"},
	}
	for _, test := range tests {
		_, err := client.ShouldRateLimit(t.Context(), test.request)
		if got := status.Code(err); got != test.code || !strings.Contains(status.Convert(err).Message(), test.message) {
			t.Errorf("%s: got %v; want %v: %s", test.name, err, test.code, test.message)
		}
	}
}

// record is an observer that writes down what it is told.
type record struct {
	mu    sync.Mutex
	lines []string
	timed int
	// failed is how many requests could not be decided.
	failed int
}

func (r *record) Observe(_ context.Context, event stint.Event) {
	v := event.(*policy.Verdict)
	r.mu.Lock()
	defer r.mu.Unlock()
	line := fmt.Sprintf("%s %s %d %v", v.Tier, v.Route, v.Cost, v.Decision.Allowed)
	for _, result := range v.Results {
		line += fmt.Sprintf(" %s %v %v %v %v", result.Rule.Policy, result.Limits, result.Subject != "", result.Denied,
			result.Shadow)
	}
	r.lines = append(r.lines, line)
	if v.Took > 0 {
		r.timed++
	}
	if v.Err != nil {
		r.failed++
	}
}

// TestF34Observer: observers receive rules by their place in the configuration, never what requests
// say, and nothing about hits that are given back.
func TestF34Observer(t *testing.T) {
	const hostile = "\x00\n\"}{secret"
	seen := &record{}
	var log bytes.Buffer
	service := newService(t, guardtest.Memory(t), parse(t, shop, trial), envoyrls.Options{
		Observer: seen, Logger: textLogger(&log),
		Failure: stint.FailurePolicy{Budget: 10 * time.Second},
	})
	for _, r := range []*rlsv3.RateLimitRequest{
		ask("shop", "path="+hostile, "path=/img/"+hostile, hostile+"=1"),
		ask("shop", "banned="+hostile),
		ask("shop", "staff="+hostile),
		own(0, -2, ask("shop", "path="+hostile)),
		bring(0, 1, 3, ask("shop", "x="+hostile)),
		hits(2, ask("trial", "try="+hostile)),
		ask(hostile, "a=b"),
	} {
		decide(t, service, r)
	}
	want := strings.Join([]string{ // tier, route, hits, allowed; policy, limits, with a subject, denied, in shadow
		"envoy shop.path 1 true shop.path [3/1h] true false false",
		"envoy shop.path_/img/* 1 true shop.path_/img/* [2/1d] true false false",
		"envoy  1 true",
		"envoy shop.banned 1 false shop.banned [0/1h] true true false",
		"envoy shop.staff 1 true",
		"envoy shop (override) 1 true shop (override) [1/1h] true false false",
		"envoy trial.try 2 true trial.try [1/1h] true true true",
		"envoy  1 true",
	}, "\n")
	if got := strings.Join(seen.lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if log.Len() > 0 {
		t.Errorf("the log says %q", &log)
	}
	if seen.timed != 6 {
		t.Errorf("%d requests are timed, want 6: all but the one that gives hits back", seen.timed)
	}
}

// TestF11Subjects: descriptors that differ have counters of their own, whatever is in them.
func TestF11Subjects(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	var requests []*rlsv3.RateLimitRequest
	for _, d := range []string{"", "=", "a=", "a=b", "a=b%2cc", "a=%2c", "a=b:c", "a={b}", "a=\x00", "a=b=c", "a=é",
		"a=" + long, "a=" + long + "y", "%2c=", "a%3db="} {
		requests = append(requests, ask("d", d))
	}
	requests = append(requests, ask("d", "a=b,c=d"), ask("d:a=b", "c=d"), ask("d%3aa=b", "c=d"), entries("d", "a", "b,c=d"),
		entries("d", "a=b", ""), entries("d"))
	service := newService(t, guardtest.Memory(t), parse(t, "domain: d", "domain: 'd:a=b'", "domain: 'd%3aa=b'"), envoyrls.Options{})
	seen := map[string]bool{}
	for _, r := range requests {
		text := r.String()
		if got, want := show(decide(t, service, bring(0, 1, 4, r))), "OK: OK 0 of 1/DAY"; got != want && !seen[text] {
			t.Errorf("%.80s: got %s, want %s", text, got, want)
		}
		seen[text] = true
	}
}

// TestReuse: over gRPC, whose messages are reused, a request has nothing of the one before.
func TestReuse(t *testing.T) {
	client := serve(t, newService(t, guardtest.Memory(t), parse(t, shop), envoyrls.Options{}))
	for i, step := range []step{
		{1, hits(2, ask("shop", "path=/a")), "OK: OK 1 of 3/HOUR", ""},
		{1, own(0, 3, ask("shop", "path=/b", "client=1,path=/x")), "OK: OK 0 of 3/HOUR; OK 4 of 5/DAY", ""},
		{1, bring(0, 9, daily, ask("shop", "path=/c")), "OK: OK 8 of 9/DAY", ""},
		{1, ask("shop", "path=/d"), "OK: OK 2 of 3/HOUR", ""},
		{1, ask("bank", "k=1"), "OK: OK", ""},
	} {
		response, err := client.ShouldRateLimit(t.Context(), step.request)
		if err != nil || show(response) != step.want {
			t.Errorf("step %d: got %s, %v; want %s", i+1, show(response), err, step.want)
		}
	}
}
