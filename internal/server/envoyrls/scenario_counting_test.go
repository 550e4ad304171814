package envoyrls_test

import (
	"fmt"
	"math"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

var counting = []scenario{
	{name: "up to the limit and no further", config: shop, steps: []step{
		{request: ask("shop", "path=/cart"), want: "OK: OK 2 of 3/HOUR"},
		{request: ask("shop", "path=/cart"), want: "OK: OK 1 of 3/HOUR"},
		{request: ask("shop", "path=/cart"), want: "OK: OK 0 of 3/HOUR"},
		{times: 3, request: ask("shop", "path=/cart"), want: "OVER: OVER 0 of 3/HOUR"},
	}},
	{name: "what is denied is charged to none, or with fixed windows to each", config: shop, steps: []step{
		{request: ask("shop", "path=/buy", "client=1,path=/x"), want: "OK: OK 0 of 1/HOUR as buying; OK 4 of 5/DAY"},
		{
			times: 3, request: ask("shop", "path=/buy", "client=1,path=/x"),
			want:  "OVER: OVER 0 of 1/HOUR as buying; OK 4 of 5/DAY",
			fixed: "OVER: OVER 0 of 1/HOUR as buying; OK 1 of 5/DAY",
		},
		{
			request: ask("shop", "client=1,path=/x"),
			want:    "OK: OK 3 of 5/DAY", fixed: "OK: OK 0 of 5/DAY",
		},
	}},
	{name: "all limits exceeded", config: shop, fresh: true, steps: []step{
		{request: ask("shop", "path=/buy", "banned=1"), want: "OVER: OK 1 of 1/HOUR as buying; OVER 0 of 0/HOUR", fixed: "OVER: OK 0 of 1/HOUR as buying; OVER 0 of 0/HOUR"},
		{request: ask("shop", "path=/buy"), want: "OK: OK 0 of 1/HOUR as buying",
			fixed: "OVER: OVER 0 of 1/HOUR as buying"},
		{request: ask("shop", "path=/buy", "banned=1"), want: "OVER: OVER 0 of 1/HOUR as buying; OVER 0 of 0/HOUR"},
	}},
	{name: "unmatched beside matched, in order", config: shop, steps: []step{
		{request: ask("shop", "colour=red", "path=/cart", "nothing=1"), want: "OK: OK; OK 2 of 3/HOUR; OK"},
	}},
	{name: "one counter twice in a request", config: shop, steps: []step{
		{
			request: ask("shop", "path=/cart", "path=/cart"),
			want:    "OK: OK 1 of 3/HOUR; OK 1 of 3/HOUR", fixed: "OK: OK 2 of 3/HOUR; OK 1 of 3/HOUR",
		},
		{
			request: ask("shop", "path=/cart", "path=/cart"),
			want:    "OVER: OVER 1 of 3/HOUR; OVER 1 of 3/HOUR", fixed: "OVER: OK 0 of 3/HOUR; OVER 0 of 3/HOUR",
		},
	}},
	{name: "more counters than one question has claims", config: shop, steps: []step{
		{request: many(20, ""), want: manyStatuses("OK:", 20, "OK 4 of 5/DAY")},
		{request: many(20, "banned=1"), want: manyStatuses("OVER:", 20, "OK 4 of 5/DAY") + "; OVER 0 of 0/HOUR",
			fixed: manyStatuses("OVER:", 20, "OK 3 of 5/DAY") + "; OVER 0 of 0/HOUR"},
		{request: many(20, ""), want: manyStatuses("OK:", 20, "OK 3 of 5/DAY"),
			fixed: manyStatuses("OK:", 20, "OK 2 of 5/DAY")},
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

func manyStatuses(overall string, n int, status string) string {
	for i := range n {
		if i > 0 {
			overall += ";"
		}
		overall += " " + status
	}
	return overall
}

var addends = []scenario{
	{name: "hits of the request", config: shop, steps: []step{
		{request: hits(2, ask("shop", "path=/cart")), want: "OK: OK 1 of 3/HOUR"},
	}},
	{name: "hits of zero are one", config: shop, steps: []step{
		{request: hits(0, ask("shop", "path=/cart")), want: "OK: OK 2 of 3/HOUR"},
	}},
	{name: "more hits than are left", config: shop, steps: []step{
		{request: hits(2, ask("shop", "path=/cart")), want: "OK: OK 1 of 3/HOUR"},
		{request: hits(2, ask("shop", "path=/cart")), want: "OVER: OVER 1 of 3/HOUR", fixed: "OVER: OVER 0 of 3/HOUR"},
		{request: ask("shop", "path=/cart"), want: "OK: OK 0 of 3/HOUR", fixed: "OVER: OVER 0 of 3/HOUR"},
	}},
	{name: "more hits than the limit", config: shop, steps: []step{
		{request: hits(4, ask("shop", "path=/cart")), want: "OVER: OVER 3 of 3/HOUR", fixed: "OVER: OVER 0 of 3/HOUR"},
		{request: own(0, 0, ask("shop", "path=/cart")), want: "OK: OK 3 of 3/HOUR", fixed: "OVER: OVER 0 of 3/HOUR"},
		{request: ask("shop", "path=/cart"), want: "OK: OK 2 of 3/HOUR", fixed: "OVER: OVER 0 of 3/HOUR"},
	}},
	{name: "hits of the descriptor", config: shop, steps: []step{
		{
			request: own(1, 3, hits(2, ask("shop", "path=/cart", "client=1,path=/x"))),
			want:    "OK: OK 1 of 3/HOUR; OK 2 of 5/DAY",
		},
	}},
	{name: "hits of zero of the descriptor only look", config: shop, steps: []step{
		{request: own(0, 0, ask("shop", "path=/cart")), want: "OK: OK 3 of 3/HOUR"},
		{times: 2, request: ask("shop", "path=/cart"), want: "OK: OK 1 of 3/HOUR"},
		{times: 5, request: own(0, 0, ask("shop", "path=/cart")), want: "OK: OK 1 of 3/HOUR"},
		{request: own(0, 0, ask("shop", "path=/cart", "client=1,path=/x")), want: "OK: OK 1 of 3/HOUR; OK 4 of 5/DAY"},
	}},
	{name: "a look at what is used up", config: shop, steps: []step{
		{request: ask("shop", "path=/buy"), want: "OK: OK 0 of 1/HOUR as buying"},
		{request: own(0, 0, ask("shop", "path=/buy")), want: "OK: OK 0 of 1/HOUR as buying"},
		{request: ask("shop", "path=/buy"), want: "OVER: OVER 0 of 1/HOUR as buying"},
		{request: own(0, 0, ask("shop", "path=/buy")), want: "OVER: OVER 0 of 1/HOUR as buying"},
	}},
	{name: "looked at before, charged after", config: trial, steps: []step{
		{request: own(0, 0, ask("trial", "hard=1")), want: "OK: OK 2 of 2/HOUR"},
		{times: 2, request: ask("trial", "hard=1"), want: "OK: OK 0 of 2/HOUR"},
		{request: own(0, 0, ask("trial", "hard=1")), want: "OK: OK 0 of 2/HOUR"},
		{request: ask("trial", "hard=1"), want: "OVER: OVER 0 of 2/HOUR"},
		{request: own(0, 0, ask("trial", "hard=1")), want: "OVER: OVER 0 of 2/HOUR"},
	}},
	{name: "streams whose tokens are charged when they end", steps: []step{
		{request: own(0, 0, ask("ai", "model=gpt")), want: "OK: OK 10000 of 10000/HOUR"},
		{times: 2, request: own(0, 4000, ask("ai", "model=gpt")), want: "OK: OK 2000 of 10000/HOUR"},
		{request: own(0, 0, ask("ai", "model=gpt")), want: "OK: OK 2000 of 10000/HOUR"},
		{request: own(0, 4000, ask("ai", "model=gpt")), want: "OVER: OVER 0 of 10000/HOUR"},
		{request: own(0, 0, ask("ai", "model=gpt")), want: "OVER: OVER 0 of 10000/HOUR"},
		{request: own(0, -2000, ask("ai", "model=gpt")), want: "OK: OK 0 of 10000/HOUR"}, // all 12,000 were counted
		{request: own(0, -1, ask("ai", "model=gpt")), want: "OK: OK 1 of 10000/HOUR"},
	}, config: "domain: ai\ndescriptors: [{key: model, rate_limit: {unit: hour, requests_per_unit: 10000}}]"},
	{name: "streams that cost one when they begin", steps: []step{
		{times: 3, request: ask("ai", "model=gpt"), want: "OK: OK 9997 of 10000/HOUR"},
		{times: 2, request: own(0, 4000, ask("ai", "model=gpt")), want: "OK: OK 1997 of 10000/HOUR"},
		{request: ask("ai", "model=gpt"), want: "OK: OK 1996 of 10000/HOUR"},
		{request: own(0, 4000, ask("ai", "model=gpt")), want: "OVER: OVER 0 of 10000/HOUR"},
		{request: ask("ai", "model=gpt"), want: "OVER: OVER 0 of 10000/HOUR"},
		{request: own(0, -2005, ask("ai", "model=gpt")), want: "OK: OK 1 of 10000/HOUR"}, // of 12,004
	}, config: "domain: ai\ndescriptors: [{key: model, rate_limit: {unit: hour, requests_per_unit: 10000}}]"},
	{name: "hits that are known before", steps: []step{ // they are not used if they are denied
		{times: 2, request: own(0, 4000, ask("ai", "model=gpt")), want: "OK: OK 2000 of 10000/HOUR"},
		{request: own(0, 4000, ask("ai", "model=gpt")), want: "OVER: OVER 2000 of 10000/HOUR",
			fixed: "OVER: OVER 0 of 10000/HOUR"},
		{request: own(0, 2000, ask("ai", "model=gpt")), want: "OK: OK 0 of 10000/HOUR",
			fixed: "OVER: OVER 0 of 10000/HOUR"},
	}, config: "domain: ai\ndescriptors: [{key: model, rate_limit: {unit: hour, requests_per_unit: 10000}}]"},
	{name: "F23 the largest hits", config: shop, steps: []step{
		{request: hits(math.MaxUint32, ask("shop", "path=/cart")), want: "OVER: OVER 3 of 3/HOUR",
			fixed: "OVER: OVER 0 of 3/HOUR"},
		{request: own(0, 1<<53, ask("shop", "path=/help")), want: "OVER: OVER 3 of 3/HOUR",
			fixed: "OVER: OVER 0 of 3/HOUR"},
		{request: own(0, math.MaxInt64, ask("shop", "path=/help")), want: "OVER: OVER 3 of 3/HOUR",
			fixed: "OVER: OVER 0 of 3/HOUR"},
		{request: own(1, 1<<53, own(0, 1<<53, ask("shop", "path=/sale", "path=/sale"))),
			want: "OVER: OVER 3 of 3/HOUR; OVER 3 of 3/HOUR", fixed: "OVER: OVER 0 of 3/HOUR; OVER 0 of 3/HOUR"},
		{request: own(0, math.MinInt64+1, ask("shop", "path=/gift")), want: "OK: OK 3 of 3/HOUR"},
	}},
	{name: "negative hits give back", config: shop, steps: []step{
		{times: 3, request: ask("shop", "path=/cart"), want: "OK: OK 0 of 3/HOUR"},
		{request: own(0, -2, ask("shop", "path=/cart")), want: "OK: OK 2 of 3/HOUR"},
		{times: 2, request: ask("shop", "path=/cart"), want: "OK: OK 0 of 3/HOUR"},
		{request: ask("shop", "path=/cart"), want: "OVER: OVER 0 of 3/HOUR"},
	}},
	{name: "parts of one charge are given back one after the other", config: shop, steps: []step{
		{request: hits(5, ask("shop", "client=1,path=/x")), want: "OK: OK 0 of 5/DAY"},
		{request: own(0, -2, ask("shop", "client=1,path=/x")), want: "OK: OK 2 of 5/DAY"},
		{request: own(0, -2, ask("shop", "client=1,path=/x")), want: "OK: OK 4 of 5/DAY"},
		{request: own(0, -2, ask("shop", "client=1,path=/x")), want: "OK: OK 5 of 5/DAY"},
	}},
	{name: "what was denied is given back where it was counted", config: shop, steps: []step{
		{request: hits(5, ask("shop", "path=/cart")), want: "OVER: OVER 3 of 3/HOUR", fixed: "OVER: OVER 0 of 3/HOUR"},
		{request: own(0, -1, ask("shop", "path=/cart")), want: "OK: OK 3 of 3/HOUR", fixed: "OVER: OVER 0 of 3/HOUR"},
		{request: own(0, -2, ask("shop", "path=/cart")), want: "OK: OK 3 of 3/HOUR", fixed: "OK: OK 1 of 3/HOUR"},
	}},
	{name: "no more is given back than was charged", config: shop, steps: []step{
		{request: own(0, -7, ask("shop", "path=/cart")), want: "OK: OK 3 of 3/HOUR"},
		{request: ask("shop", "path=/cart"), want: "OK: OK 2 of 3/HOUR"},
		{request: own(0, -7, ask("shop", "path=/cart")), want: "OK: OK 3 of 3/HOUR"},
		{times: 4, request: ask("shop", "path=/cart"), want: "OVER: OVER 0 of 3/HOUR"},
	}},
	{name: "one descriptor charged, the other given back", config: shop, steps: []step{
		{times: 2, request: ask("shop", "path=/cart", "client=1,path=/x"), want: "OK: OK 1 of 3/HOUR; OK 3 of 5/DAY"},
		{request: own(1, -1, ask("shop", "path=/cart", "client=1,path=/x")), want: "OK: OK 0 of 3/HOUR; OK 4 of 5/DAY"},
	}},
	{name: "negative hits without a limit", config: shop, steps: []step{
		{request: own(0, -1, ask("shop", "colour=red")), want: "OK: OK"},
		{request: own(0, -1, ask("shop", "staff=1")), want: "OK: OK 4294967295"},
	}},
	{name: "a large limit, given back in part", steps: []step{
		{times: 20, request: hits(10, ask("d", "k=1")), want: "OK: OK 99800 of 100000/DAY"},
		{request: own(0, -150, ask("d", "k=1")), want: "OK: OK 99950 of 100000/DAY"},
	}, config: "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 100000}}]"},
}
