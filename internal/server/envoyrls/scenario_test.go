package envoyrls_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
)

// step is a request, how often it is sent in a row, and the answer to the last of them. Where the
// windows differ, fixed is what upstream would answer.
type step struct {
	times   int // 0 is once
	request *rlsv3.RateLimitRequest
	want    string
	fixed   string
}

// scenario is a configuration and what becomes of requests, one after the other.
type scenario struct {
	name    string
	config  string
	options envoyrls.Options
	// fresh says that statuses beside the one that denies have to be of the moment: a deny cache
	// repeats those of up to a second ago.
	fresh bool
	steps []step
}

// Limits are by the hour and longer, so that no window ends during a test but by bad luck.
const shop = `
domain: shop
descriptors:
  - key: path
    rate_limit: {unit: hour, requests_per_unit: 3}
  - key: path
    value: /buy
    rate_limit: {unit: hour, requests_per_unit: 1, name: buying}
  - key: path
    value: /img/*
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: path
    value: /*/big
    rate_limit: {unit: day, requests_per_unit: 4}
  - key: client
    descriptors:
      - key: path
        value: /buy
        rate_limit: {unit: day, requests_per_unit: 2}
      - key: path
        rate_limit: {unit: day, requests_per_unit: 5}
  - key: staff
    rate_limit: {unlimited: true}
  - key: banned
    rate_limit: {unit: hour, requests_per_unit: 0}
  - key: nothing
  - key: both
    rate_limit: {unit: hour, requests_per_unit: 6}
    descriptors:
      - key: more
        rate_limit: {unit: hour, requests_per_unit: 7}
`

var scenarios = slices.Concat(matching, limits, counting, addends, modes, replacing, sharing, stopping)

var matching = []scenario{
	{name: "unknown domain", config: shop, steps: []step{
		{request: ask("bank", "path=/"), want: "OK: OK"},
	}},
	{name: "unknown key", config: shop, steps: []step{
		{request: ask("shop", "colour=red"), want: "OK: OK"},
	}},
	{name: "key alone", config: shop, steps: []step{
		{request: ask("shop", "path=/cart"), want: "OK: OK 2 of 3/HOUR"},
	}},
	{name: "each value has a counter of its own", config: shop, steps: []step{
		{times: 3, request: ask("shop", "path=/cart"), want: "OK: OK 0 of 3/HOUR"},
		{request: ask("shop", "path=/help"), want: "OK: OK 2 of 3/HOUR"},
		{request: ask("shop", "path=/cart"), want: "OVER: OVER 0 of 3/HOUR"},
	}},
	{name: "no value at all", config: shop, steps: []step{
		{request: ask("shop", "path="), want: "OK: OK 2 of 3/HOUR"},
	}},
	{name: "exact before wildcard and key", config: shop, steps: []step{
		{request: ask("shop", "path=/buy"), want: "OK: OK 0 of 1/HOUR as buying"},
		{request: ask("shop", "path=/buy"), want: "OVER: OVER 0 of 1/HOUR as buying"},
	}},
	{name: "wildcard before key", config: shop, steps: []step{
		{request: ask("shop", "path=/img/a.png"), want: "OK: OK 1 of 2/DAY"},
	}},
	{name: "wildcard stands for nothing too", config: shop, steps: []step{
		{request: ask("shop", "path=/img/"), want: "OK: OK 1 of 2/DAY"},
	}},
	{name: "wildcard in the middle", config: shop, steps: []step{
		{request: ask("shop", "path=/x/big"), want: "OK: OK 3 of 4/DAY"},
		{request: ask("shop", "path=/x/bigger"), want: "OK: OK 2 of 3/HOUR"},
	}},
	{name: "first of two wildcards in the order of the file", config: shop, steps: []step{
		{request: ask("shop", "path=/img/big"), want: "OK: OK 1 of 2/DAY"},
	}},
	{name: "values of a wildcard have counters of their own", config: shop, steps: []step{
		{times: 2, request: ask("shop", "path=/img/a"), want: "OK: OK 0 of 2/DAY"},
		{request: ask("shop", "path=/img/b"), want: "OK: OK 1 of 2/DAY"},
	}},
	{name: "several wildcards in one value", steps: []step{
		{request: ask("d", "route=/api/1/item/2/edit"), want: "OK: OK 8 of 9/HOUR"},
		{request: ask("d", "route=/api/1/item/edit"), want: "OK: OK"},
	}, config: `
domain: d
descriptors:
  - key: route
    value: /api/*/item/*/edit
    rate_limit: {unit: hour, requests_per_unit: 9}
`},
	{name: "nested, exact", config: shop, steps: []step{
		{request: ask("shop", "client=7,path=/buy"), want: "OK: OK 1 of 2/DAY"},
	}},
	{name: "nested, key alone", config: shop, steps: []step{
		{request: ask("shop", "client=7,path=/cart"), want: "OK: OK 4 of 5/DAY"},
		{request: ask("shop", "client=8,path=/cart"), want: "OK: OK 4 of 5/DAY"},
		{request: ask("shop", "client=7,path=/cart"), want: "OK: OK 3 of 5/DAY"},
	}},
	{name: "too shallow", config: shop, steps: []step{
		{request: ask("shop", "client=7"), want: "OK: OK"},
	}},
	{name: "too deep", config: shop, steps: []step{
		{request: ask("shop", "path=/buy,client=7"), want: "OK: OK"},
	}},
	{name: "a limit on the way to another", config: shop, steps: []step{
		{request: ask("shop", "both=1"), want: "OK: OK 5 of 6/HOUR"},
		{request: ask("shop", "both=1,more=2"), want: "OK: OK 6 of 7/HOUR"},
		{request: ask("shop", "both=1,less=2"), want: "OK: OK"},
	}},
	{name: "a descriptor without a limit", config: shop, steps: []step{
		{request: ask("shop", "nothing=1"), want: "OK: OK"},
	}},
	{name: "order of the entries", config: shop, steps: []step{
		{request: ask("shop", "path=/cart,client=7"), want: "OK: OK"},
	}},
	{name: "keys and values are compared joined", steps: []step{
		{request: ask("d", "a=b"), want: "OK: OK 3 of 4/HOUR"},
		{request: ask("d", "a_b=c"), want: "OK: OK 3 of 4/HOUR"},
	}, config: "domain: d\ndescriptors: [{key: a_b, rate_limit: {unit: hour, requests_per_unit: 4}}]"},
	{name: "descriptors that read alike have counters of their own", steps: []step{
		{request: ask("d", "k=b_c"), want: "OK: OK 0 of 1/HOUR"},
		{request: ask("d", "k_b=c"), want: "OK: OK 0 of 1/HOUR"},
	}, config: `
domain: d
descriptors:
  - {key: k, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: k_b, rate_limit: {unit: hour, requests_per_unit: 1}}
`},
	{name: "case matters", config: shop, steps: []step{
		{request: ask("shop", "Path=/cart"), want: "OK: OK"},
		{request: ask("shop", "path=/BUY"), want: "OK: OK 2 of 3/HOUR"},
	}},
	{name: "two domains", steps: []step{
		{request: ask("a", "k=1"), want: "OK: OK 0 of 1/HOUR"},
		{request: ask("b", "k=1"), want: "OK: OK 0 of 1/HOUR"},
		{request: ask("a", "k=1"), want: "OVER: OVER 0 of 1/HOUR"},
	}, config: `domain: a
descriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1}}]
---
domain: b
descriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1}}]
`},
}

var limits = []scenario{
	{name: "units", steps: []step{
		{request: ask("d", "u=second"), want: "OK: OK 9 of 10/SECOND"},
		{request: ask("d", "u=minute"), want: "OK: OK 9 of 10/MINUTE"},
		{request: ask("d", "u=hour"), want: "OK: OK 9 of 10/HOUR"},
		{request: ask("d", "u=day"), want: "OK: OK 9 of 10/DAY"},
		{request: ask("d", "u=week"), want: "OK: OK 9 of 10/WEEK"},
		{request: ask("d", "u=month"), want: "OK: OK 9 of 10/MONTH"},
		{request: ask("d", "u=year"), want: "OK: OK 9 of 10/YEAR"},
	}, config: `
domain: d
descriptors:
  - {key: u, value: second, rate_limit: {unit: second, requests_per_unit: 10}}
  - {key: u, value: minute, rate_limit: {unit: Minute, requests_per_unit: 10}}
  - {key: u, value: hour, rate_limit: {unit: HOUR, requests_per_unit: 10}}
  - {key: u, value: day, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: u, value: week, rate_limit: {unit: week, requests_per_unit: 10}}
  - {key: u, value: month, rate_limit: {unit: month, requests_per_unit: 10}}
  - {key: u, value: year, rate_limit: {unit: year, requests_per_unit: 10}}
`},
	{name: "unit multiplier", steps: []step{
		{request: ask("d", "k=1"), want: "OK: OK 2 of 3/HOUR×6"},
	}, config: "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, unit_multiplier: 6, requests_per_unit: 3}}]"},
	{name: "unlimited", config: shop, steps: []step{
		{times: 9, request: ask("shop", "staff=1"), want: "OK: OK 4294967295"},
		{request: ask("shop", "staff=1", "path=/buy"), want: "OK: OK 4294967295; OK 0 of 1/HOUR as buying"},
		{request: ask("shop", "staff=1", "path=/buy"), want: "OVER: OK 4294967295; OVER 0 of 1/HOUR as buying"},
	}},
	{name: "a limit of zero", config: shop, steps: []step{
		{request: own(0, 0, ask("shop", "banned=1")), want: "OVER: OVER 0 of 0/HOUR", fixed: "OK: OK 0 of 0/HOUR"},
		{times: 2, request: ask("shop", "banned=1"), want: "OVER: OVER 0 of 0/HOUR"},
		{request: hits(7, ask("shop", "banned=1")), want: "OVER: OVER 0 of 0/HOUR"},
		{request: own(0, 0, ask("shop", "banned=1")), want: "OVER: OVER 0 of 0/HOUR"},
		{request: own(0, 0, ask("shop", "banned=2")), want: "OVER: OVER 0 of 0/HOUR", fixed: "OK: OK 0 of 0/HOUR"},
	}},
	{name: "the largest limit", steps: []step{
		{request: hits(5, ask("d", "k=1")), want: "OK: OK 4294967290 of 4294967295/YEAR"},
		{request: hits(math.MaxUint32, ask("d", "k=2")), want: "OK: OK 0 of 4294967295/YEAR"},
		{request: ask("d", "k=2"), want: "OVER: OVER 0 of 4294967295/YEAR"},
	}, config: "domain: d\ndescriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 4294967295}}]"},
	{name: "a limit in the request", config: shop, steps: []step{
		{request: bring(0, 2, typev3.RateLimitUnit_DAY, ask("shop", "path=/buy")), want: "OK: OK 1 of 2/DAY"},
		{request: bring(0, 2, typev3.RateLimitUnit_DAY, ask("shop", "colour=red")), want: "OK: OK 1 of 2/DAY"},
		{times: 2, request: bring(0, 2, typev3.RateLimitUnit_DAY, ask("shop", "colour=red")),
			want: "OVER: OVER 0 of 2/DAY"},
		{request: bring(0, 2, typev3.RateLimitUnit_DAY, ask("bank", "colour=red")), want: "OK: OK"},
	}},
	{name: "a limit in the request counts with that of the configuration", config: shop, steps: []step{
		{times: 3, request: ask("shop", "path=/cart"), want: "OK: OK 0 of 3/HOUR"},
		{request: bring(0, 10, typev3.RateLimitUnit_HOUR, ask("shop", "path=/cart")), want: "OK: OK 6 of 10/HOUR"},
	}},
	{name: "a limit of zero in the request", config: shop, steps: []step{
		{request: bring(0, 0, typev3.RateLimitUnit_HOUR, ask("shop", "path=/cart")), want: "OVER: OVER 0 of 0/HOUR"},
		{request: ask("shop", "path=/cart"), want: "OK: OK 2 of 3/HOUR", fixed: "OK: OK 1 of 3/HOUR"},
	}},
	{name: "a limit in the request where there is none", config: shop, steps: []step{
		{times: 2, request: bring(0, 1, typev3.RateLimitUnit_DAY, ask("shop", "staff=1")),
			want: "OVER: OVER 0 of 1/DAY"},
		{request: ask("shop", "staff=1"), want: "OK: OK 4294967295"},
		{times: 2, request: bring(0, 1, typev3.RateLimitUnit_MONTH, ask("shop", "both=1,none=2,deep=3")),
			want: "OVER: OVER 0 of 1/MONTH"},
	}},
	{name: "two limits on one counter", config: shop, steps: []step{
		{
			request: bring(1, 2, typev3.RateLimitUnit_HOUR, ask("shop", "path=/cart", "path=/cart")),
			want:    "OK: OK 1 of 3/HOUR; OK 0 of 2/HOUR",
			fixed:   "OK: OK 2 of 3/HOUR; OK 0 of 2/HOUR",
		},
	}},
}

// TestScenarios runs every scenario over gRPC, in memory, in a real Redis, and in one behind all
// that makes it fast and calm, with both windows.
func TestScenarios(t *testing.T) {
	server := redistest.Start(t)
	t.Run("all", func(t *testing.T) {
		for i, sc := range scenarios {
			for _, window := range []envoyrls.Window{envoyrls.Sliding, envoyrls.Fixed} {
				for _, where := range []string{"memory", "redis", "stack"} {
					if where == "stack" && sc.fresh {
						continue
					}
					t.Run(fmt.Sprintf("%s/%v/%s", sc.name, window, where), func(t *testing.T) {
						t.Parallel()
						o := sc.options
						o.Window = window
						// On a busy machine a decision may take longer than Envoy would wait.
						o.Failure = stint.FailurePolicy{Mode: stint.FailError, Budget: 10 * time.Second}
						var store stint.Store
						switch prefix := fmt.Sprintf("%s-%d-%v", where, i, window); where {
						case "memory":
							store = inMemory(t, nil)
						case "redis":
							store = inRedis(t, server, prefix)
						case "stack":
							store = behindStack(t, inRedis(t, server, prefix), o.Failure)
						}
						sc.run(t, serve(t, newService(t, store, load(t, sc.config), o)), window)
					})
				}
			}
		}
	})
	if n := len(scenarios); n < 50 {
		t.Errorf("%d scenarios; want at least 50", n)
	}
	if keys := redistest.KeysWithoutTTL(t, server); len(keys) > 0 {
		t.Errorf("keys without a TTL: %q", keys)
	}
}

func (sc *scenario) run(t *testing.T, client rlsv3.RateLimitServiceClient, window envoyrls.Window) {
	t.Helper()
	for k, step := range sc.steps {
		var got string
		for range max(step.times, 1) {
			got = show(must(t, client, proto.CloneOf(step.request)))
		}
		want := step.want
		if window == envoyrls.Fixed && step.fixed != "" {
			want = step.fixed
		}
		if got != want {
			t.Errorf("step %d: got %s\nwant %s", k, got, want)
		}
	}
}
