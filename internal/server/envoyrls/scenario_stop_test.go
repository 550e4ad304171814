package envoyrls_test

import "github.com/stint-limiter/stint/internal/server/envoyrls"

var stopOverLimit = envoyrls.Options{StopOverLimit: true}

// In fixed windows, those over their limits are charged as ever, and only they.
var stopping = []scenario{
	{name: "over one limit, charged to no other", config: shop, options: stopOverLimit, steps: []step{
		{request: ask("shop", "path=/buy", "client=1,path=/x"), want: "OK: OK 0 of 1/HOUR as buying; OK 4 of 5/DAY"},
		{times: 3, request: ask("shop", "path=/buy", "client=1,path=/x"),
			want: "OVER: OVER 0 of 1/HOUR as buying; OK 4 of 5/DAY"},
		{times: 3, request: ask("shop", "client=1,path=/x", "path=/buy"),
			want: "OVER: OK 4 of 5/DAY; OVER 0 of 1/HOUR as buying"},
		{request: ask("shop", "client=1,path=/x"), want: "OK: OK 3 of 5/DAY"},
	}},
	{name: "charged to no other, of many", config: shop, options: stopOverLimit, steps: []step{
		{request: many(20, ""), want: manyStatuses("OK:", 20, "OK 4 of 5/DAY")},
		{request: many(20, "banned=1"), want: manyStatuses("OVER:", 20, "OK 4 of 5/DAY") + "; OVER 0 of 0/HOUR"},
		{request: many(20, ""), want: manyStatuses("OK:", 20, "OK 3 of 5/DAY")},
	}},
	{name: "charged to no other, but to itself", config: shop, options: stopOverLimit, fresh: true, steps: []step{
		{request: hits(2, ask("shop", "path=/cart", "client=1,path=/x")), want: "OK: OK 1 of 3/HOUR; OK 3 of 5/DAY"},
		{
			request: hits(2, ask("shop", "path=/cart", "client=1,path=/x")),
			want:    "OVER: OVER 1 of 3/HOUR; OK 3 of 5/DAY", fixed: "OVER: OVER 0 of 3/HOUR; OK 3 of 5/DAY",
		},
		{
			request: ask("shop", "path=/cart", "client=1,path=/x"),
			want:    "OK: OK 0 of 3/HOUR; OK 2 of 5/DAY", fixed: "OVER: OVER 0 of 3/HOUR; OK 3 of 5/DAY",
		},
	}},
	{name: "charged to no other, for more than the limit", config: shop, options: stopOverLimit, fresh: true,
		steps: []step{
			{
				request: own(0, 4, ask("shop", "path=/cart", "client=1,path=/x")),
				want:    "OVER: OVER 3 of 3/HOUR; OK 5 of 5/DAY", fixed: "OVER: OVER 0 of 3/HOUR; OK 5 of 5/DAY",
			},
			{request: own(0, 0, ask("shop", "path=/cart")), want: "OK: OK 3 of 3/HOUR",
				fixed: "OVER: OVER 0 of 3/HOUR"},
		}},
	{name: "charged to no other, for a limit of zero", config: shop, options: stopOverLimit, fresh: true, steps: []step{
		{request: ask("shop", "banned=1", "path=/cart"), want: "OVER: OVER 0 of 0/HOUR; OK 3 of 3/HOUR"},
		{request: own(0, 0, ask("shop", "banned=1")), want: "OVER: OVER 0 of 0/HOUR"},
	}},
	{name: "a look at what is exceeded, charged to no other", config: shop, options: stopOverLimit, steps: []step{
		{times: 2, request: ask("shop", "path=/buy"), want: "OVER: OVER 0 of 1/HOUR as buying"},
		{
			request: own(0, 0, ask("shop", "path=/buy", "client=1,path=/x")),
			want:    "OK: OK 0 of 1/HOUR as buying; OK 4 of 5/DAY",
			fixed:   "OVER: OVER 0 of 1/HOUR as buying; OK 5 of 5/DAY",
		},
	}},
	{name: "one counter twice, looked at before it is charged", config: shop, options: stopOverLimit, steps: []step{
		{times: 2, request: ask("shop", "path=/cart"), want: "OK: OK 1 of 3/HOUR"},
		{
			request: ask("shop", "path=/cart", "path=/cart", "client=1,path=/x"),
			want:    "OVER: OVER 1 of 3/HOUR; OVER 1 of 3/HOUR; OK 5 of 5/DAY",
			fixed:   "OVER: OK 0 of 3/HOUR; OVER 0 of 3/HOUR; OK 4 of 5/DAY",
		},
	}},
	{name: "hits are given back once, whatever becomes of the others", config: shop, options: stopOverLimit, steps: []step{
		{times: 3, request: ask("shop", "path=/cart"), want: "OK: OK 0 of 3/HOUR"},
		{request: own(0, -1, ask("shop", "path=/cart", "path=/buy")),
			want: "OK: OK 1 of 3/HOUR; OK 0 of 1/HOUR as buying"},
		{request: own(0, -1, ask("shop", "path=/cart", "path=/buy")), want: "OVER: OK 2 of 3/HOUR; OVER 0 of 1/HOUR as buying"},
	}},
	{name: "shadow and quota mode stop too, in fixed windows", config: trial, options: stopOverLimit, steps: []step{
		{request: ask("trial", "try=1", "hard=1"), want: "OK: OK 0 of 1/HOUR; OK 1 of 2/HOUR"},
		{
			times: 2, request: ask("trial", "try=1", "hard=1"),
			want: "OVER: OK 0 of 1/HOUR; OVER 0 of 2/HOUR", fixed: "OK: OK 0 of 1/HOUR; OK 1 of 2/HOUR",
		},
		{request: ask("trial", "purse=a", "purse=b"), want: "OK: OK 0 of 1/HOUR; OK 1 of 2/HOUR"},
		{
			times: 2, request: ask("trial", "purse=a", "purse=b"),
			want: "OVER: OVER 0 of 1/HOUR; OVER 0 of 2/HOUR", fixed: "OK: OVER 0 of 1/HOUR; OK 1 of 2/HOUR",
		},
	}},
}
