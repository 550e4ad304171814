package envoyrls_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// step is a request, how often it is sent in a row, and the last answer. In fixed windows, the
// answer of envoyproxy/ratelimit may differ: fixed, unless it is "".
type step struct {
	times   int
	request *rlsv3.RateLimitRequest
	want    string
	fixed   string
}

// run sends the requests of the steps, and compares the answers.
func run(t testing.TB, s *envoyrls.Service, window envoyrls.Window, steps []step) {
	t.Helper()
	for i, step := range steps {
		var got string
		for range step.times {
			got = show(decide(t, s, proto.CloneOf(step.request)))
		}
		want := step.want
		if window == envoyrls.Fixed && step.fixed != "" {
			want = step.fixed
		}
		if got != want {
			t.Errorf("%v, step %d: got %s\nwant %s", window, i+1, got, want)
		}
	}
}

// scenario is a configuration and requests, one after the other.
type scenario struct {
	name    string
	config  string
	options envoyrls.Options
	// fresh scenarios run without the stack, whose deny cache repeats statuses of up to a second
	// ago.
	fresh bool
	steps []step
}

// Limits are by the hour and longer, so that windows rarely end during a test.
const shop = `
domain: shop
descriptors:
  - {key: path, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: path, value: /buy, rate_limit: {unit: hour, requests_per_unit: 1, name: buying}}
  - {key: path, value: /img/*, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: path, value: /*/big, rate_limit: {unit: day, requests_per_unit: 4}}
  - key: client
    descriptors:
      - {key: path, value: /buy, rate_limit: {unit: day, requests_per_unit: 2}}
      - {key: path, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: staff, rate_limit: {unlimited: true}}
  - {key: banned, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: nothing}
  - key: both
    rate_limit: {unit: hour, requests_per_unit: 6}
    descriptors: [{key: more, rate_limit: {unit: hour, requests_per_unit: 7}}]
`

const trial = `
domain: trial
descriptors:
  - {key: try, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: hard, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: purse, value: a, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: purse, value: b, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: free, quota_mode: true, rate_limit: {unlimited: true}}
`

const (
	hourly  = typev3.RateLimitUnit_HOUR
	daily   = typev3.RateLimitUnit_DAY
	ai      = "domain: ai\ndescriptors: [{key: model, rate_limit: {unit: hour, requests_per_unit: 10000}}]"
	noBuy   = "OVER: OVER 0 of 1/HOUR as buying"
	noCart  = "OVER: OVER 0 of 3/HOUR"
	overTwo = "; OVER 0 of 2/HOUR"
)

var scenarios = slices.Concat(matching, counting, modes, stopping)

var matching = []scenario{
	{name: "descriptors", config: shop, steps: []step{
		{1, ask("bank", "path=/"), "OK: OK", ""},
		{1, ask("shop", "colour=red"), "OK: OK", ""},
		{1, ask("shop", "nothing=1"), "OK: OK", ""},
		{1, ask("shop", "path="), "OK: OK 2 of 3/HOUR", ""},
		{3, ask("shop", "path=/cart"), "OK: OK 0 of 3/HOUR", ""},
		{1, ask("shop", "path=/help"), "OK: OK 2 of 3/HOUR", ""},
		{3, ask("shop", "path=/cart"), noCart, ""},
		{1, ask("shop", "path=/buy"), "OK: OK 0 of 1/HOUR as buying", ""},
		{1, ask("shop", "path=/buy"), noBuy, ""},
		{2, ask("shop", "path=/img/a"), "OK: OK 0 of 2/DAY", ""},
		{1, ask("shop", "path=/img/b"), "OK: OK 1 of 2/DAY", ""},
		{1, ask("shop", "path=/img/"), "OK: OK 1 of 2/DAY", ""},
		{1, ask("shop", "path=/img/big"), "OK: OK 1 of 2/DAY", ""},
		{1, ask("shop", "path=/x/big"), "OK: OK 3 of 4/DAY", ""},
		{1, ask("shop", "path=/x/bigger"), "OK: OK 2 of 3/HOUR", ""},
		{1, ask("shop", "client=7,path=/buy"), "OK: OK 1 of 2/DAY", ""},
		{1, ask("shop", "client=7,path=/cart"), "OK: OK 4 of 5/DAY", ""},
		{1, ask("shop", "client=8,path=/cart"), "OK: OK 4 of 5/DAY", ""},
		{1, ask("shop", "client=7,path=/cart"), "OK: OK 3 of 5/DAY", ""},
		{1, ask("shop", "client=7"), "OK: OK", ""},
		{1, ask("shop", "path=/buy,client=7"), "OK: OK", ""},
		{1, ask("shop", "both=1"), "OK: OK 5 of 6/HOUR", ""},
		{1, ask("shop", "both=1,more=2"), "OK: OK 6 of 7/HOUR", ""},
		{1, ask("shop", "both=1,less=2"), "OK: OK", ""},
		{1, ask("shop", "Path=/cart"), "OK: OK", ""},
		{1, ask("shop", "path=/BUY"), "OK: OK 2 of 3/HOUR", ""},
		{1, ask("shop", "colour=red", "path=/menu", "nothing=1"), "OK: OK; OK 2 of 3/HOUR; OK", ""},
	}},
	{name: "patterns and domains", steps: []step{
		{1, ask("a", "route=/api/1/item/2/edit"), "OK: OK 8 of 9/HOUR", ""},
		{1, ask("a", "route=/api/1/item/edit"), "OK: OK", ""},
		{1, ask("a", "k=b_c"), "OK: OK 0 of 1/HOUR", ""},
		{1, ask("a", "k_b=c"), "OK: OK 0 of 1/HOUR", ""}, // another counter
		{1, ask("a", "x=y"), "OK: OK 3 of 4/HOUR", ""},   // keys and values are compared joined
		{1, ask("a", "x_y=c"), "OK: OK 3 of 4/HOUR", ""},
		{1, ask("b", "k=b_c"), "OK: OK 0 of 1/HOUR", ""},
		{1, ask("a", "k=b_c"), "OVER: OVER 0 of 1/HOUR", ""},
	}, config: `domain: a
descriptors:
  - {key: route, value: /api/*/item/*/edit, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: k, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: k_b, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: x_y, rate_limit: {unit: hour, requests_per_unit: 4}}
---
domain: b
descriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1}}]
`},
	{name: "units", steps: []step{
		{1, ask("d", "u=second", "u=minute", "u=hour", "u=day", "u=week", "u=month", "u=year", "k=1"),
			"OK: OK 9 of 10/SECOND; OK 9 of 10/MINUTE; OK 9 of 10/HOUR; OK 9 of 10/DAY; OK 9 of 10/WEEK; " +
				"OK 9 of 10/MONTH; OK 9 of 10/YEAR; OK 2 of 3/HOUR×6", ""},
		{1, hits(5, ask("d", "max=1")), "OK: OK 4294967290 of 4294967295/YEAR", ""},
		{1, hits(math.MaxUint32, ask("d", "max=2")), "OK: OK 0 of 4294967295/YEAR", ""},
		{1, ask("d", "max=2"), "OVER: OVER 0 of 4294967295/YEAR", ""},
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
  - {key: k, rate_limit: {unit: hour, unit_multiplier: 6, requests_per_unit: 3}}
  - {key: max, rate_limit: {unit: year, requests_per_unit: 4294967295}}
`},
	{name: "unlimited", config: shop, steps: []step{
		{9, ask("shop", "staff=1"), "OK: OK 4294967295", ""},
		{1, ask("shop", "staff=1", "path=/buy"), "OK: OK 4294967295; OK 0 of 1/HOUR as buying", ""},
		{1, ask("shop", "staff=1", "path=/buy"), "OVER: OK 4294967295; OVER 0 of 1/HOUR as buying", ""},
	}},
	{name: "limits in requests", config: shop, steps: []step{
		{1, bring(0, 2, daily, ask("shop", "path=/buy")), "OK: OK 1 of 2/DAY", ""},
		{1, bring(0, 2, daily, ask("shop", "colour=red")), "OK: OK 1 of 2/DAY", ""},
		{2, bring(0, 2, daily, ask("shop", "colour=red")), "OVER: OVER 0 of 2/DAY", ""},
		{1, bring(0, 2, daily, ask("bank", "colour=red")), "OK: OK", ""},
		{3, ask("shop", "path=/cart"), "OK: OK 0 of 3/HOUR", ""}, // one counter with the configured limit
		{1, bring(0, 10, hourly, ask("shop", "path=/cart")), "OK: OK 6 of 10/HOUR", ""},
		{1, bring(0, 0, hourly, ask("shop", "path=/zero")), "OVER: OVER 0 of 0/HOUR", ""},
		{1, ask("shop", "path=/zero"), "OK: OK 2 of 3/HOUR", "OK: OK 1 of 3/HOUR"},
		{2, bring(0, 1, daily, ask("shop", "staff=1")), "OVER: OVER 0 of 1/DAY", ""},
		{1, ask("shop", "staff=1"), "OK: OK 4294967295", ""},
		{2, bring(0, 1, typev3.RateLimitUnit_MONTH, ask("shop", "both=1,none=2,deep=3")), "OVER: OVER 0 of 1/MONTH", ""},
		{1, bring(1, 2, hourly, ask("shop", "path=/two", "path=/two")),
			"OK: OK 1 of 3/HOUR; OK 0 of 2/HOUR", "OK: OK 2 of 3/HOUR; OK 0 of 2/HOUR"},
	}},
	{name: "a wildcard that shares a counter", steps: []step{
		{1, ask("files", "path=files/a"), "OK: OK 2 of 3/HOUR", ""},
		{1, ask("files", "path=files/b"), "OK: OK 1 of 3/HOUR", ""},
		{1, ask("files", "path=files/*"), "OK: OK 0 of 3/HOUR", ""},
		{1, ask("files", "path=files/c"), noCart, ""},
		{1, ask("files", "path=own/c"), "OK: OK 2 of 3/HOUR", ""},
		{1, ask("files", "area=eu-1,client=7"), "OK: OK 1 of 2/HOUR", ""},
		{1, ask("files", "area=eu-2,client=7"), "OK: OK 0 of 2/HOUR", ""},
		{1, ask("files", "area=eu-2,client=8"), "OK: OK 1 of 2/HOUR", ""},
		{1, ask("files", "area=eu-3,client=9", "area=eu-4,client=9"),
			"OK: OK 0 of 2/HOUR; OK 0 of 2/HOUR", "OK: OK 1 of 2/HOUR; OK 0 of 2/HOUR"},
	}, config: `
domain: files
descriptors:
  - {key: path, value: files/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: path, value: own/*, rate_limit: {unit: hour, requests_per_unit: 3}}
  - key: area
    value: eu-*
    share_threshold: true
    descriptors: [{key: client, rate_limit: {unit: hour, requests_per_unit: 2}}]
`},
	{name: "limits that replace others", steps: []step{
		{3, ask("swap", "all=1", "vip=1"), "OK: OK; OK 0 of 3/HOUR", ""},
		{1, ask("swap", "all=1", "vip=1"), "OVER: OK; OVER 0 of 3/HOUR", ""},
		{1, ask("swap", "all=1"), "OK: OK 0 of 1/HOUR as general", ""},
		{1, ask("swap", "all=1"), "OVER: OVER 0 of 1/HOUR as general", ""},
		{1, ask("swap", "vip=2", "all=2"), "OK: OK 2 of 3/HOUR; OK", ""},
		{4, ask("swap", "all=3", "free=1"), "OK: OK; OK 4294967295", ""},
		{1, ask("swap", "strict=1", "free=1"), "OK: OK 1 of 2/HOUR; OK 4294967295", ""},
	}, config: `
domain: swap
descriptors:
  - {key: all, rate_limit: {unit: hour, requests_per_unit: 1, name: general}}
  - {key: vip, rate_limit: {unit: hour, requests_per_unit: 3, replaces: [{name: general}]}}
  - {key: free, rate_limit: {unlimited: true, name: exempt, replaces: [{name: general}]}}
  - {key: strict, rate_limit: {unit: hour, requests_per_unit: 2, replaces: [{name: exempt}]}}
`},
}

var counting = []scenario{
	{name: "a denial", config: shop, steps: []step{
		{1, ask("shop", "path=/buy", "client=1,path=/x"), "OK: OK 0 of 1/HOUR as buying; OK 4 of 5/DAY", ""},
		{3, ask("shop", "path=/buy", "client=1,path=/x"), noBuy + "; OK 4 of 5/DAY", noBuy + "; OK 1 of 5/DAY"},
		{1, ask("shop", "client=1,path=/x"), "OK: OK 3 of 5/DAY", "OK: OK 0 of 5/DAY"},
	}},
	{name: "limits of zero", config: shop, fresh: true, steps: []step{
		{1, own(0, 0, ask("shop", "banned=1")), "OVER: OVER 0 of 0/HOUR", "OK: OK 0 of 0/HOUR"},
		{2, ask("shop", "banned=1"), "OVER: OVER 0 of 0/HOUR", ""},
		{1, own(0, 0, ask("shop", "banned=1")), "OVER: OVER 0 of 0/HOUR", ""},
		{1, ask("shop", "path=/buy", "banned=1"), "OVER: OK 1 of 1/HOUR as buying; OVER 0 of 0/HOUR",
			"OVER: OK 0 of 1/HOUR as buying; OVER 0 of 0/HOUR"},
		{1, ask("shop", "path=/buy"), "OK: OK 0 of 1/HOUR as buying", noBuy},
		{1, ask("shop", "path=/buy", "banned=1"), noBuy + "; OVER 0 of 0/HOUR", ""},
	}},
	{name: "one counter twice", config: shop, steps: []step{
		{1, ask("shop", "path=/cart", "path=/cart"), "OK: OK 1 of 3/HOUR; OK 1 of 3/HOUR", "OK: OK 2 of 3/HOUR; OK 1 of 3/HOUR"},
		{1, ask("shop", "path=/cart", "path=/cart"), "OVER: OVER 1 of 3/HOUR; OVER 1 of 3/HOUR",
			"OVER: OK 0 of 3/HOUR; OVER 0 of 3/HOUR"},
	}},
	{name: "more counters than a request to the store has claims", config: shop, steps: []step{
		{1, many(20, ""), manyStatuses("OK:", "OK 4 of 5/DAY"), ""},
		{1, many(20, "banned=1"), manyStatuses("OVER:", "OK 4 of 5/DAY") + "; OVER 0 of 0/HOUR",
			manyStatuses("OVER:", "OK 3 of 5/DAY") + "; OVER 0 of 0/HOUR"},
		{1, many(20, ""), manyStatuses("OK:", "OK 3 of 5/DAY"), manyStatuses("OK:", "OK 2 of 5/DAY")},
	}},
	{name: "hits", config: shop, steps: []step{
		{1, hits(2, ask("shop", "path=/cart")), "OK: OK 1 of 3/HOUR", ""},
		{1, hits(2, ask("shop", "path=/cart")), "OVER: OVER 1 of 3/HOUR", noCart},
		{1, ask("shop", "path=/cart"), "OK: OK 0 of 3/HOUR", noCart},
		{1, hits(0, ask("shop", "path=/zero")), "OK: OK 2 of 3/HOUR", ""},
		{1, hits(4, ask("shop", "path=/more")), "OVER: OVER 3 of 3/HOUR", noCart},
		{1, own(0, 0, ask("shop", "path=/more")), "OK: OK 3 of 3/HOUR", noCart},
		{1, own(1, 3, hits(2, ask("shop", "path=/own", "client=1,path=/x"))), "OK: OK 1 of 3/HOUR; OK 2 of 5/DAY", ""},
	}},
	{name: "the largest hits", config: shop, steps: []step{
		{1, hits(math.MaxUint32, ask("shop", "path=/a")), "OVER: OVER 3 of 3/HOUR", noCart},
		{1, own(0, 1<<53, ask("shop", "path=/b")), "OVER: OVER 3 of 3/HOUR", noCart},
		{1, own(0, math.MaxInt64, ask("shop", "path=/b")), "OVER: OVER 3 of 3/HOUR", noCart},
		{1, own(1, 1<<53, own(0, 1<<53, ask("shop", "path=/c", "path=/c"))), "OVER: OVER 3 of 3/HOUR; OVER 3 of 3/HOUR",
			noCart + "; OVER 0 of 3/HOUR"},
		{1, own(0, math.MinInt64+1, ask("shop", "path=/d")), "OK: OK 3 of 3/HOUR", ""},
	}},
	{name: "zero hits look", config: shop, steps: []step{
		{1, own(0, 0, ask("shop", "path=/cart")), "OK: OK 3 of 3/HOUR", ""},
		{2, ask("shop", "path=/cart"), "OK: OK 1 of 3/HOUR", ""},
		{5, own(0, 0, ask("shop", "path=/cart")), "OK: OK 1 of 3/HOUR", ""},
		{1, own(0, 0, ask("shop", "path=/cart", "client=1,path=/x")), "OK: OK 1 of 3/HOUR; OK 4 of 5/DAY", ""},
		{1, ask("shop", "path=/buy"), "OK: OK 0 of 1/HOUR as buying", ""},
		{1, own(0, 0, ask("shop", "path=/buy")), "OK: OK 0 of 1/HOUR as buying", ""},
		{1, ask("shop", "path=/buy"), noBuy, ""},
		{1, own(0, 0, ask("shop", "path=/buy")), noBuy, ""},
	}},
	{name: "streams whose tokens are charged at their end", config: ai, steps: []step{
		{1, own(0, 0, ask("ai", "model=gpt")), "OK: OK 10000 of 10000/HOUR", ""},
		{2, own(0, 4000, ask("ai", "model=gpt")), "OK: OK 2000 of 10000/HOUR", ""},
		{1, own(0, 0, ask("ai", "model=gpt")), "OK: OK 2000 of 10000/HOUR", ""},
		{1, own(0, 4000, ask("ai", "model=gpt")), "OVER: OVER 0 of 10000/HOUR", ""},
		{1, own(0, 0, ask("ai", "model=gpt")), "OVER: OVER 0 of 10000/HOUR", ""},
		{1, own(0, -2000, ask("ai", "model=gpt")), "OK: OK 0 of 10000/HOUR", ""}, // all 12,000 were counted
		{1, own(0, -1, ask("ai", "model=gpt")), "OK: OK 1 of 10000/HOUR", ""},
	}},
	{name: "hits that are known before", config: ai, steps: []step{ // unused if they are denied
		{2, own(0, 4000, ask("ai", "model=gpt")), "OK: OK 2000 of 10000/HOUR", ""},
		{1, own(0, 4000, ask("ai", "model=gpt")), "OVER: OVER 2000 of 10000/HOUR", "OVER: OVER 0 of 10000/HOUR"},
		{1, own(0, 2000, ask("ai", "model=gpt")), "OK: OK 0 of 10000/HOUR", "OVER: OVER 0 of 10000/HOUR"},
	}},
	{name: "negative hits", config: shop, fresh: true, steps: []step{
		{3, ask("shop", "path=/cart"), "OK: OK 0 of 3/HOUR", ""},
		{1, own(0, -2, ask("shop", "path=/cart")), "OK: OK 2 of 3/HOUR", ""},
		{3, ask("shop", "path=/cart"), noCart, ""},
		{1, hits(5, ask("shop", "client=1,path=/x")), "OK: OK 0 of 5/DAY", ""}, // one charge, in parts
		{2, own(0, -2, ask("shop", "client=1,path=/x")), "OK: OK 4 of 5/DAY", ""},
		{1, own(0, -2, ask("shop", "client=1,path=/x")), "OK: OK 5 of 5/DAY", ""},
		{1, hits(5, ask("shop", "path=/a")), "OVER: OVER 3 of 3/HOUR", noCart}, // counted in fixed windows only
		{1, own(0, -1, ask("shop", "path=/a")), "OK: OK 3 of 3/HOUR", noCart},
		{1, own(0, -2, ask("shop", "path=/a")), "OK: OK 3 of 3/HOUR", "OK: OK 1 of 3/HOUR"},
		{1, own(0, -7, ask("shop", "path=/b")), "OK: OK 3 of 3/HOUR", ""}, // no more than was charged
		{4, ask("shop", "path=/b"), noCart, ""},
		{2, ask("shop", "path=/c", "client=2,path=/x"), "OK: OK 1 of 3/HOUR; OK 3 of 5/DAY", ""},
		{1, own(1, -1, ask("shop", "path=/c", "client=2,path=/x")), "OK: OK 0 of 3/HOUR; OK 4 of 5/DAY", ""},
		{1, own(0, -1, ask("shop", "colour=red", "staff=1")), "OK: OK; OK 4294967295", ""},
	}},
}

var modes = []scenario{
	{name: "shadow mode", config: trial, steps: []step{
		{3, ask("trial", "try=0"), "OK: OK 0 of 1/HOUR", ""},
		{2, ask("trial", "try=1", "hard=1"), "OK: OK 0 of 1/HOUR; OK 0 of 2/HOUR", ""},
		{1, ask("trial", "try=1", "hard=1"), "OVER: OK 0 of 1/HOUR" + overTwo, ""},
		{1, ask("trial", "try=2", "hard=1"), "OVER: OK 1 of 1/HOUR" + overTwo, "OVER: OK 0 of 1/HOUR" + overTwo},
		{2, bring(0, 1, hourly, ask("trial", "try=9")), "OVER: OVER 0 of 1/HOUR", ""},
	}},
	{name: "shadow mode of all", config: trial, options: envoyrls.Options{ShadowMode: true}, steps: []step{
		{3, ask("trial", "hard=1"), "OK: OVER 0 of 2/HOUR", ""},
	}},
	{name: "quotas", config: trial, steps: []step{
		{1, ask("trial", "purse=a", "purse=b"), "OK: OK 0 of 1/HOUR; OK 1 of 2/HOUR", ""},
		{1, ask("trial", "purse=a", "purse=b"), "OK: OVER 0 of 1/HOUR; OK 0 of 2/HOUR", ""},
		{1, ask("trial", "purse=a", "purse=b"), "OVER: OVER 0 of 1/HOUR" + overTwo, ""},
		{1, ask("trial", "purse=a"), "OVER: OVER 0 of 1/HOUR", ""}, // the only quota is a limit
		{1, ask("trial", "free=1", "purse=a"), "OVER: OK 4294967295; OVER 0 of 1/HOUR", ""},
		{1, ask("trial", "other=1", "purse=a"), "OVER: OK; OVER 0 of 1/HOUR", ""},
	}},
	{name: "quotas beside a limit", config: trial, steps: []step{
		{1, ask("trial", "purse=a", "hard=1"), "OK: OK 0 of 1/HOUR; OK 1 of 2/HOUR", ""},
		{1, ask("trial", "purse=a", "hard=1"), "OVER: OVER 0 of 1/HOUR; OK 1 of 2/HOUR",
			"OVER: OVER 0 of 1/HOUR; OK 0 of 2/HOUR"},
		{1, ask("trial", "hard=1"), "OK: OK 0 of 2/HOUR", "OVER: OVER 0 of 2/HOUR"},
		{1, ask("trial", "purse=b", "hard=1"), "OVER: OK 2 of 2/HOUR" + overTwo, "OVER: OK 1 of 2/HOUR" + overTwo},
	}},
	{name: "quota mode of all", config: trial, options: envoyrls.Options{QuotaMode: true}, steps: []step{
		{3, ask("trial", "hard=1", "hard=2"), "OVER: OVER 0 of 2/HOUR" + overTwo, ""},
		{1, ask("trial", "hard=1", "hard=3"), "OK: OVER 0 of 2/HOUR; OK 1 of 2/HOUR", ""},
		{1, ask("trial", "other=1", "hard=1"), "OK: OK" + overTwo, ""}, // without a limit, there is room
		{1, ask("trial", "free=1", "hard=1"), "OVER: OK 4294967295" + overTwo, ""},
		{1, ask("trial", "hard=1", "free=1"), "OVER: OVER 0 of 2/HOUR; OK 4294967295", ""},
		{1, ask("trial", "hard=1", "free=1", "other=1"), "OK: OVER 0 of 2/HOUR; OK 4294967295; OK", ""},
		{2, ask("trial", "hard=1", "free=1", "try=1"), "OK: OVER 0 of 2/HOUR; OK 4294967295; OK 0 of 1/HOUR", ""},
		{1, ask("trial", "free=1"), "OK: OK 4294967295", ""},
	}},
}

var stopOverLimit = envoyrls.Options{StopOverLimit: true}

// In fixed windows, only descriptors over their limits are charged then.
var stopping = []scenario{
	{name: "stopped over a limit", config: shop, options: stopOverLimit, steps: []step{
		{1, ask("shop", "path=/buy", "client=1,path=/x"), "OK: OK 0 of 1/HOUR as buying; OK 4 of 5/DAY", ""},
		{3, ask("shop", "path=/buy", "client=1,path=/x"), noBuy + "; OK 4 of 5/DAY", ""},
		{3, ask("shop", "client=1,path=/x", "path=/buy"), "OVER: OK 4 of 5/DAY; OVER 0 of 1/HOUR as buying", ""},
		{1, ask("shop", "client=1,path=/x"), "OK: OK 3 of 5/DAY", ""},
		{1, own(0, 0, ask("shop", "path=/buy", "client=2,path=/x")), "OK: OK 0 of 1/HOUR as buying; OK 4 of 5/DAY",
			noBuy + "; OK 5 of 5/DAY"},
	}},
	{name: "charged to itself", config: shop, options: stopOverLimit, fresh: true, steps: []step{
		{1, hits(2, ask("shop", "path=/cart", "client=1,path=/x")), "OK: OK 1 of 3/HOUR; OK 3 of 5/DAY", ""},
		{1, hits(2, ask("shop", "path=/cart", "client=1,path=/x")), "OVER: OVER 1 of 3/HOUR; OK 3 of 5/DAY",
			noCart + "; OK 3 of 5/DAY"},
		{1, ask("shop", "path=/cart", "client=1,path=/x"), "OK: OK 0 of 3/HOUR; OK 2 of 5/DAY", noCart + "; OK 3 of 5/DAY"},
		{1, ask("shop", "banned=1", "path=/a"), "OVER: OVER 0 of 0/HOUR; OK 3 of 3/HOUR", ""},
		{2, ask("shop", "path=/twice"), "OK: OK 1 of 3/HOUR", ""},
		{1, ask("shop", "path=/twice", "path=/twice", "client=3,path=/x"), "OVER: OVER 1 of 3/HOUR; OVER 1 of 3/HOUR; OK 5 of 5/DAY",
			"OVER: OK 0 of 3/HOUR; OVER 0 of 3/HOUR; OK 4 of 5/DAY"},
		{3, ask("shop", "path=/back"), "OK: OK 0 of 3/HOUR", ""},
		{1, own(0, -1, ask("shop", "path=/back", "path=/buy")), "OK: OK 1 of 3/HOUR; OK 0 of 1/HOUR as buying", ""},
		{1, own(0, -1, ask("shop", "path=/back", "path=/buy")), "OVER: OK 2 of 3/HOUR; OVER 0 of 1/HOUR as buying", ""},
		{1, own(0, 0, ask("shop", "banned=1")), "OVER: OVER 0 of 0/HOUR", ""},
	}},
	{name: "more than the limit, charged to itself", config: shop, options: stopOverLimit, fresh: true, steps: []step{
		{1, own(0, 4, ask("shop", "path=/more", "client=2,path=/x")), "OVER: OVER 3 of 3/HOUR; OK 5 of 5/DAY",
			noCart + "; OK 5 of 5/DAY"},
		{1, own(0, 0, ask("shop", "path=/more")), "OK: OK 3 of 3/HOUR", noCart},
	}},
	{name: "shadow and quota mode stop too", config: trial, options: stopOverLimit, steps: []step{
		{1, ask("trial", "try=1", "hard=1"), "OK: OK 0 of 1/HOUR; OK 1 of 2/HOUR", ""},
		{2, ask("trial", "try=1", "hard=1"), "OVER: OK 0 of 1/HOUR" + overTwo, "OK: OK 0 of 1/HOUR; OK 1 of 2/HOUR"},
		{1, ask("trial", "purse=a", "purse=b"), "OK: OK 0 of 1/HOUR; OK 1 of 2/HOUR", ""},
		{2, ask("trial", "purse=a", "purse=b"), "OVER: OVER 0 of 1/HOUR" + overTwo, "OK: OVER 0 of 1/HOUR; OK 1 of 2/HOUR"},
	}},
}

// many is a request with n counters, and one more.
func many(n int, last string) *rlsv3.RateLimitRequest {
	var descriptors []string
	for i := range n {
		descriptors = append(descriptors, fmt.Sprintf("client=%d,path=/x", i))
	}
	if last != "" {
		descriptors = append(descriptors, last)
	}
	return ask("shop", descriptors...)
}

// manyStatuses is an answer with a status twenty times.
func manyStatuses(overall, status string) string {
	return overall + " " + strings.Repeat(status+"; ", 19) + status
}

// TestScenarios decides every scenario in memory and in Redis, usually behind the stack, in both
// kinds of windows.
func TestScenarios(t *testing.T) {
	stores := []string{"memory"}
	var server *redistest.Server
	if !testing.Short() {
		stores, server = append(stores, "redis"), redistest.Start(t)
	}
	for i, sc := range scenarios {
		for _, window := range windows {
			for _, where := range stores {
				t.Run(fmt.Sprintf("%s/%v/%s", sc.name, window, where), func(t *testing.T) {
					o := sc.options
					o.Window = window
					// On a busy machine a decision may take longer than Envoy would wait.
					o.Failure = stint.FailurePolicy{Mode: stint.FailError, Budget: 10 * time.Second}
					var store stint.Store = guardtest.Memory(t)
					if where == "redis" {
						redis := guardtest.Redis(t, redisstore.Config{URL: server.URL(), Prefix: fmt.Sprintf("%d-%v", i, window)})
						if store = redis; !sc.fresh {
							store = guardtest.Stack(t, redis, resilience.Config{Failure: o.Failure})
						}
					}
					run(t, newService(t, store, parse(t, strings.Split(sc.config, "\n---\n")...), o), window, sc.steps)
				})
			}
		}
	}
	if server == nil {
		return
	}
	if keys := redistest.KeysWithoutTTL(t, server); len(keys) > 0 {
		t.Errorf("keys without a TTL: %q", keys)
	}
}
