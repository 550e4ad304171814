package envoyrls_test

import (
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/stint-limiter/stint/internal/server/envoyrls"
)

const trial = `
domain: trial
descriptors:
  - {key: try, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: hard, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: purse, value: a, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: purse, value: b, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: free, quota_mode: true, rate_limit: {unlimited: true}}
`

var modes = []scenario{
	{name: "shadow mode counts and lets through", config: trial, steps: []step{
		{times: 3, request: ask("trial", "try=1"), want: "OK: OK 0 of 1/HOUR"},
	}},
	{name: "shadow mode beside a limit", config: trial, steps: []step{
		{times: 2, request: ask("trial", "try=1", "hard=1"), want: "OK: OK 0 of 1/HOUR; OK 0 of 2/HOUR"},
		{request: ask("trial", "try=1", "hard=1"), want: "OVER: OK 0 of 1/HOUR; OVER 0 of 2/HOUR"},
		{request: ask("trial", "try=2", "hard=1"), want: "OVER: OK 1 of 1/HOUR; OVER 0 of 2/HOUR",
			fixed: "OVER: OK 0 of 1/HOUR; OVER 0 of 2/HOUR"},
	}},
	{name: "shadow mode of all", config: trial, options: envoyrls.Options{ShadowMode: true}, steps: []step{
		{times: 3, request: ask("trial", "hard=1"), want: "OK: OVER 0 of 2/HOUR"},
	}},
	{name: "a limit in the request is not in shadow mode", config: trial, steps: []step{
		{times: 2, request: bring(0, 1, typev3.RateLimitUnit_HOUR, ask("trial", "try=9")),
			want: "OVER: OVER 0 of 1/HOUR"},
	}},
	{name: "one of several quotas is enough", config: trial, steps: []step{
		{request: ask("trial", "purse=a", "purse=b"), want: "OK: OK 0 of 1/HOUR; OK 1 of 2/HOUR"},
		{request: ask("trial", "purse=a", "purse=b"), want: "OK: OVER 0 of 1/HOUR; OK 0 of 2/HOUR"},
		{request: ask("trial", "purse=a", "purse=b"), want: "OVER: OVER 0 of 1/HOUR; OVER 0 of 2/HOUR"},
	}},
	{name: "the only quota is a limit", config: trial, steps: []step{
		{times: 2, request: ask("trial", "purse=a"), want: "OVER: OVER 0 of 1/HOUR"},
	}},
	{name: "quotas beside a limit", config: trial, steps: []step{
		{request: ask("trial", "purse=a", "hard=1"), want: "OK: OK 0 of 1/HOUR; OK 1 of 2/HOUR"},
		{request: ask("trial", "purse=a", "hard=1"), want: "OVER: OVER 0 of 1/HOUR; OK 1 of 2/HOUR",
			fixed: "OVER: OVER 0 of 1/HOUR; OK 0 of 2/HOUR"},
		{request: ask("trial", "hard=1"), want: "OK: OK 0 of 2/HOUR", fixed: "OVER: OVER 0 of 2/HOUR"},
		{request: ask("trial", "purse=b", "hard=1"), want: "OVER: OK 2 of 2/HOUR; OVER 0 of 2/HOUR",
			fixed: "OVER: OK 1 of 2/HOUR; OVER 0 of 2/HOUR"},
	}},
	{name: "quota mode of all", config: trial, options: envoyrls.Options{QuotaMode: true}, steps: []step{
		{times: 3, request: ask("trial", "hard=1", "hard=2"), want: "OVER: OVER 0 of 2/HOUR; OVER 0 of 2/HOUR"},
		{request: ask("trial", "hard=1", "hard=3"), want: "OK: OVER 0 of 2/HOUR; OK 1 of 2/HOUR"},
	}},
	{name: "quota mode of all counts what has no limit as room", config: trial, options: envoyrls.Options{QuotaMode: true}, steps: []step{
		{times: 3, request: ask("trial", "other=1", "hard=1"), want: "OK: OK; OVER 0 of 2/HOUR"},
		{request: ask("trial", "hard=1"), want: "OVER: OVER 0 of 2/HOUR"},
	}},
	{name: "what is unlimited is no quota", config: trial, options: envoyrls.Options{QuotaMode: true}, steps: []step{
		{times: 2, request: ask("trial", "free=1", "hard=1"), want: "OK: OK 4294967295; OK 0 of 2/HOUR"},
		{request: ask("trial", "free=1", "hard=1"), want: "OVER: OK 4294967295; OVER 0 of 2/HOUR"},
		{request: ask("trial", "hard=1", "free=1"), want: "OVER: OVER 0 of 2/HOUR; OK 4294967295"},
		{request: ask("trial", "hard=1", "free=1", "other=1"), want: "OK: OVER 0 of 2/HOUR; OK 4294967295; OK"},
		{times: 2, request: ask("trial", "hard=1", "free=1", "try=1"),
			want: "OK: OVER 0 of 2/HOUR; OK 4294967295; OK 0 of 1/HOUR"},
		{request: ask("trial", "free=1"), want: "OK: OK 4294967295"},
	}},
	{name: "what is unlimited is no quota of one either", config: trial, steps: []step{
		{times: 2, request: ask("trial", "free=1", "purse=a"), want: "OVER: OK 4294967295; OVER 0 of 1/HOUR"},
	}},
	{name: "quota mode of one does not", config: trial, steps: []step{
		{times: 2, request: ask("trial", "other=1", "purse=a"), want: "OVER: OK; OVER 0 of 1/HOUR"},
	}},
}

const swap = `
domain: swap
descriptors:
  - {key: all, rate_limit: {unit: hour, requests_per_unit: 1, name: general}}
  - {key: vip, rate_limit: {unit: hour, requests_per_unit: 3, replaces: [{name: general}]}}
  - {key: free, rate_limit: {unlimited: true, name: exempt, replaces: [{name: general}]}}
  - {key: strict, rate_limit: {unit: hour, requests_per_unit: 2, replaces: [{name: exempt}]}}
`

var replacing = []scenario{
	{name: "one limit replaces another", config: swap, steps: []step{
		{times: 3, request: ask("swap", "all=1", "vip=1"), want: "OK: OK; OK 0 of 3/HOUR"},
		{request: ask("swap", "all=1", "vip=1"), want: "OVER: OK; OVER 0 of 3/HOUR"},
		{request: ask("swap", "all=1"), want: "OK: OK 0 of 1/HOUR as general"},
	}},
	{name: "in any order", config: swap, steps: []step{
		{request: ask("swap", "vip=1", "all=1"), want: "OK: OK 2 of 3/HOUR; OK"},
	}},
	{name: "what is unlimited replaces, and is not replaced", config: swap, steps: []step{
		{times: 4, request: ask("swap", "all=1", "free=1"), want: "OK: OK; OK 4294967295"},
		{request: ask("swap", "strict=1", "free=1"), want: "OK: OK 1 of 2/HOUR; OK 4294967295"},
	}},
	{name: "a limit on its own is not replaced", config: swap, steps: []step{
		{times: 2, request: ask("swap", "all=1"), want: "OVER: OVER 0 of 1/HOUR as general"},
	}},
}

const files = `
domain: files
descriptors:
  - key: path
    value: files/*
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 3}
  - key: path
    value: own/*
    rate_limit: {unit: hour, requests_per_unit: 3}
  - key: area
    value: eu-*
    share_threshold: true
    descriptors:
      - key: client
        rate_limit: {unit: hour, requests_per_unit: 2}
`

var sharing = []scenario{
	{name: "values of a wildcard share a counter", config: files, steps: []step{
		{request: ask("files", "path=files/a"), want: "OK: OK 2 of 3/HOUR"},
		{request: ask("files", "path=files/b"), want: "OK: OK 1 of 3/HOUR"},
		{request: ask("files", "path=files/*"), want: "OK: OK 0 of 3/HOUR"},
		{request: ask("files", "path=files/c"), want: "OVER: OVER 0 of 3/HOUR"},
		{request: ask("files", "path=own/c"), want: "OK: OK 2 of 3/HOUR"},
	}},
	{name: "two values of a shared counter in one request", config: files, steps: []step{
		{
			request: ask("files", "path=files/a", "path=files/b"),
			want:    "OK: OK 1 of 3/HOUR; OK 1 of 3/HOUR", fixed: "OK: OK 2 of 3/HOUR; OK 1 of 3/HOUR",
		},
	}},
	{name: "shared above, apart below", config: files, steps: []step{
		{request: ask("files", "area=eu-1,client=7"), want: "OK: OK 1 of 2/HOUR"},
		{request: ask("files", "area=eu-2,client=7"), want: "OK: OK 0 of 2/HOUR"},
		{request: ask("files", "area=eu-2,client=8"), want: "OK: OK 1 of 2/HOUR"},
	}},
}
