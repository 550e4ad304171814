package envoyrls_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/policy"
)

func TestErrors(t *testing.T) {
	client := serve(t, newService(t, inMemory(t, nil), parse(t, shop), envoyrls.Options{}))
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

func TestWrongOptions(t *testing.T) {
	_, err := envoyrls.NewService(
		nil, nil, envoyrls.Options{Failure: stint.FailurePolicy{Mode: 9},
			HeaderNames: envoyrls.HeaderNames{Reset: "X Reset"}})
	var invalid *stint.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v; want a *stint.InvalidError", err)
	}
	for _, want := range []string{"failure: mode 9", `HeaderNames: "X Reset"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q; want it to tell %q", err, want)
		}
	}
	for _, name := range []string{"sliding", "fixed"} {
		if w, err := envoyrls.ParseWindow(name); err != nil || w.String() != name {
			t.Errorf("%s: got %v, %v", name, w, err)
		}
	}
	if _, err := envoyrls.ParseWindow("tumbling"); err == nil {
		t.Error("a window that there is not: no error")
	}
}

// broken is a store that fails.
type broken struct {
	stint.Store
	requests chan stint.Request
}

func (b *broken) Take(_ context.Context, r stint.Request) (stint.Decision, error) {
	r.Claims = slices.Clone(r.Claims)
	b.requests <- r
	return stint.Decision{}, &stint.StoreError{Op: "take", Kind: stint.KindTimeout, Err: errors.New("no answer")}
}

// TestStoreFails: what a store that cannot decide is told, and what becomes of its error.
func TestStoreFails(t *testing.T) {
	for _, window := range []envoyrls.Window{envoyrls.Sliding, envoyrls.Fixed} {
		seen := &record{}
		store := &broken{requests: make(chan stint.Request, 100)}
		service := newService(t, store, parse(t, shop), envoyrls.Options{
			Window: window, Failure: stint.FailurePolicy{Mode: stint.FailError}, Observer: seen,
		})
		client := serve(t, service)
		for _, r := range []*rlsv3.RateLimitRequest{ask("shop", "path=/"), ask("shop", "path=/", "client=1,path=/"),
			many(20, "")} {
			if _, err := client.ShouldRateLimit(t.Context(), r); status.Code(err) != codes.Unavailable {
				t.Errorf("%v: got %v; want %v", window, err, codes.Unavailable)
			}
		}
		r := <-store.requests
		if got, want := *r.Failure, (stint.FailurePolicy{
			Mode: stint.FailError, Budget: contract.DefaultBudget}); got != want {
			t.Errorf("%v: the store was told %+v, want %+v", window, got, want)
		}
		if err := r.Validate(); err != nil {
			t.Errorf("%v: %v", window, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := service.ShouldRateLimit(ended, ask("shop", "path=/")); status.Code(err) != codes.Canceled {
			t.Errorf("%v: got %v; want %v", window, err, codes.Canceled)
		}
		if seen.failed != 4 {
			t.Errorf("%v: the observer received %d failures, want 4", window, seen.failed)
		}
	}
}

// TestOutage: what Envoy is told while Redis is gone, by the failure mode.
func TestOutage(t *testing.T) {
	for _, window := range []envoyrls.Window{envoyrls.Sliding, envoyrls.Fixed} {
		for _, test := range []struct {
			mode stint.FailureMode
			want []string // "" is an error
		}{
			{stint.FailLocal, []string{"OK: OK 0 of 1/HOUR as buying", "OVER: OVER 0 of 1/HOUR as buying"}},
			{stint.FailAllow, []string{"OK: OK 1 of 1/HOUR as buying", "OK: OK 1 of 1/HOUR as buying"}},
			{stint.FailDeny, []string{"OVER: OVER 0 of 1/HOUR as buying", "OVER: OVER 0 of 1/HOUR as buying"}},
			{stint.FailError, []string{"", ""}},
		} {
			t.Run(fmt.Sprintf("%v/%v", window, test.mode), func(t *testing.T) {
				server := redistest.Start(t)
				policy := stint.FailurePolicy{Mode: test.mode}
				store := behindStack(t, inRedis(t, server, "outage"), policy)
				client := serve(t, newService(t, store, parse(t, shop),
					envoyrls.Options{Window: window, Failure: policy}))
				server.Kill()
				for i, want := range test.want {
					got := ""
					r, err := client.ShouldRateLimit(t.Context(), ask("shop", "path=/buy"))
					if err == nil {
						got = show(r)
					} else if status.Code(err) != codes.Unavailable {
						t.Errorf("request %d: got %v; want %v", i, err, codes.Unavailable)
					}
					if got != want {
						t.Errorf("request %d: got %q, want %q", i, got, want)
					}
				}
			})
		}
	}
}

// TestF6Skew: in fixed windows, too, the store's clock counts, not that of the host.
func TestF6Skew(t *testing.T) {
	for _, skew := range []time.Duration{-29 * time.Second, 0, 29 * time.Second} {
		for _, into := range []time.Duration{0, 30 * time.Second, 59*time.Second + 999*time.Millisecond} {
			theirs := newClock(noon.Add(into))
			ours := newClock(noon.Add(into + skew))
			service := newService(t, inMemory(t, theirs.now), parse(t, timed),
				envoyrls.Options{Window: envoyrls.Fixed, Now: ours.now})
			for i, step := range []struct {
				hits int64
				want string
			}{
				{1, "OK: OK 1 of 2/MINUTE"}, {2, "OVER: OVER 0 of 2/MINUTE"}, {1, "OVER: OVER 0 of 2/MINUTE"},
				{-2, "OK: OK 1 of 2/MINUTE"}, {1, "OK: OK 0 of 2/MINUTE"},
			} {
				r, err := service.ShouldRateLimit(t.Context(), own(0, step.hits, ask("d", "few=1")))
				if err != nil {
					t.Fatal(err)
				}
				if got := show(r); got != step.want {
					t.Errorf("skew %v, %v into the window, step %d: got %s, want %s", skew, into, i, got, step.want)
				}
			}
		}
	}
}

// TestF25Swap: a limit that changes keeps its history, and holds from the next request on.
func TestF25Swap(t *testing.T) {
	config := func(n int) *envoyrls.Config {
		return parse(t, fmt.Sprintf("domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: %d}}]", n))
	}
	for _, window := range []envoyrls.Window{envoyrls.Sliding, envoyrls.Fixed} {
		first := config(3)
		service := newService(t, inMemory(t, nil), first, envoyrls.Options{Window: window})
		client := serve(t, service)
		if service.Config() != first {
			t.Error("not the configuration that it was made with")
		}
		for _, step := range []struct {
			limit int
			want  string
		}{
			{3, "OK: OK 2 of 3/HOUR"}, {5, "OK: OK 3 of 5/HOUR"}, {2, "OVER: OVER 0 of 2/HOUR"},
			{4, "OK: OK 1 of 4/HOUR"},
		} {
			service.Swap(config(step.limit))
			want := step.want
			if window == envoyrls.Fixed && step.limit == 4 {
				want = "OK: OK 0 of 4/HOUR" // the denied one was counted
			}
			if got := show(must(t, client, ask("d", "k=1"))); got != want {
				t.Errorf("%v, a limit of %d: got %s, want %s", window, step.limit, got, want)
			}
		}
	}
}

// TestSharedRedis: services over one Redis are one, for windows of both kinds.
func TestSharedRedis(t *testing.T) {
	const limit, callers, each = 100, 8, 25
	server := redistest.Start(t)
	config := parse(t, fmt.Sprintf("domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: %d}}]", limit))
	for _, window := range []envoyrls.Window{envoyrls.Sliding, envoyrls.Fixed} {
		var clients [2]rlsv3.RateLimitServiceClient
		for i := range clients {
			clients[i] = serve(t, newService(t, inRedis(t, server, window.String()), config,
				envoyrls.Options{Window: window}))
		}
		var mu sync.Mutex
		count := map[rlsv3.RateLimitResponse_Code]int{}
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() {
				for range each {
					r, err := clients[i%2].ShouldRateLimit(t.Context(), ask("d", "k=1"))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					count[r.GetOverallCode()]++
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if count[ok] != limit || count[over] != callers*each-limit {
			t.Errorf("%v: got %v; want %d admitted of %d", window, count, limit, callers*each)
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
	service := newService(t, inMemory(t, nil), load(t, shop+"\n---\n"+trial), envoyrls.Options{
		Observer: seen, Logger: slog.New(slog.NewTextHandler(&log, nil)),
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
		if _, err := service.ShouldRateLimit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
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
	requests = append(requests, ask("d", "a=b,c=d"), ask("d:a=b", "c=d"), ask("d%3aa=b", "c=d"))
	comma := ask("d", "a=")
	comma.Descriptors[0].Entries[0].Value = "b,c=d"
	equals := ask("d", "a=")
	equals.Descriptors[0].Entries[0].Key = "a=b"
	none := ask("d", "a=")
	none.Descriptors[0].Entries = nil
	requests = append(requests, comma, equals, none)

	client := serve(t, newService(t, inMemory(t, nil), load(t, "domain: d\n---\ndomain: 'd:a=b'\n---\ndomain: 'd%3aa=b'\n"), envoyrls.Options{}))
	seen := map[string]bool{}
	for _, r := range requests {
		text := r.String()
		if got, want := show(must(t, client, bring(0, 1, 4, r))), "OK: OK 0 of 1/DAY"; got != want && !seen[text] {
			t.Errorf("%.80s: got %s, want %s", text, got, want)
		}
		seen[text] = true
	}
}

// TestAllocations: an answer costs what its messages need and the text of its subject.
func TestAllocations(t *testing.T) {
	config := parse(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 4000000000}}, {key: no, rate_limit: {unit: hour, requests_per_unit: 0}}]")
	tests := []struct {
		name    string
		options envoyrls.Options
		request *rlsv3.RateLimitRequest
		want    float64
	}{
		{"allowed", envoyrls.Options{Headers: envoyrls.HeadersNone}, ask("d", "k=1"), 2},
		{"fixed", envoyrls.Options{Window: envoyrls.Fixed}, ask("d", "k=1"), 2},
		{"with header fields", envoyrls.Options{}, ask("d", "k=1"), 4},
		{"denied", envoyrls.Options{}, ask("d", "no=1"), 4},
		{"unmatched", envoyrls.Options{}, ask("d", "x=1"), 1},
	}
	for _, test := range tests {
		service := newService(t, inMemory(t, nil), config, test.options)
		got := testing.AllocsPerRun(200, func() {
			if _, err := service.ShouldRateLimit(t.Context(), test.request); err != nil {
				t.Error(err)
			}
		})
		if got > test.want {
			t.Errorf("%s: got %v allocations, want at most %v", test.name, got, test.want)
		}
	}
}
