package config

import "strings"

// base is a good configuration to put mistakes into.
const base = `tiers:
  - {name: all, identity: ip, limits: 10/1m}
`

// wrong are configurations with the mistakes that are found in them.
var wrong = []struct {
	name string
	text string
	want string // a line for each mistake
}{
	{"empty", "", `stint.yaml:1: no rules: the file is empty`},
	{"comments", "# nothing\n\n# at all\n", `stint.yaml:1: no rules: the file is empty`},
	{"null", "---\n", `stint.yaml:1: no rules: the file is empty`},
	{"a text", "hello\n", `stint.yaml:1: want a mapping with keys such as store, failure, client_ip; got "hello"`},
	{"a list", "- tiers\n", `stint.yaml:1: want a mapping with keys such as store, failure, client_ip; got a list`},
	{"two documents", base + "---\n" + base, `stint.yaml:3: a second document; want one per file, without ---`},
	{"not UTF-8", base + "store: {prefix: \"\xff\"}\n", `stint.yaml:3: not UTF-8`},
	{"derived ids", base + "request_id: {header: X-Id, derive: 2s}\npolicies:\n  - {name: a, request_id: {derive: 11s}}\n" +
		"  - {name: b, request_id: {derive: 0s}}\n  - {name: c, request_id: {derive: true}}\n  - {name: d, request_id: {life: 1h, derive: 2s}}\n" +
		"  - {name: e, match: {path: /e}, skip: true, request_id: {derive: 2s}}\n",
		`stint.yaml:3: request_id.derive: set it in policies, for routes where equal requests should count once
stint.yaml:5: policies[0].request_id.derive: 11s; want the time in which equal requests count as one, at most 10s, such as 2s
stint.yaml:6: policies[1].request_id.derive: 0s; want the time in which equal requests count as one, such as 2s
stint.yaml:6: policies[1]: does nothing; want limits, a budget, a cost, costs, hold, usage, settle, refund, request_id, failure, or skip: true
stint.yaml:7: policies[2].request_id.derive: want a duration such as 15ms, 1m30s, 1h or 1d; got "true"
stint.yaml:8: policies[3].request_id.header: "" is not the name of a header; want something like X-User-ID
stint.yaml:9: policies[4].request_id: has no effect in a policy with skip`},
	{"derived ids and places", "tiers:\n  - {name: free, match: {path: /free}, identity: ip, limits: 2/30s concurrency}\n" +
		"  - {name: all, identity: ip, limits: 10/1m}\npolicies:\n  - {name: a, limits: {all: 1/30s concurrency}, request_id: {derive: 2s}}\n" +
		"  - {name: b, limits: {default: 1/1s}, request_id: {derive: 2s}}\n  - {name: c, limits: {all: 1/1s}, request_id: {derive: 2s}}\n" +
		"  - {name: d, limits: 1/30s concurrency, request_id: {header: X-Id}}\n",
		`stint.yaml:5: policies[0].request_id.derive: equal requests are charged once, so up to nine would share one place of 1/30s concurrency of the policy; do not derive ids where a concurrency limit applies
stint.yaml:6: policies[1].request_id.derive: equal requests are charged once, so up to nine would share one place of 2/30s concurrency of the tier "free"; do not derive ids where a concurrency limit applies`},
	{"contacts", "contact: javascript:alert(1)\ntiers:\n  - {name: all, identity: ip, limits: 10/1m, contact: ' Ask Ann'}\n" +
		"policies:\n  - {name: a, match: {path: /a}, skip: true, contact: Ann}\n  - {name: b, match: {path: /b}, limits: 1/1m, contact: 'https://'}\n",
		`stint.yaml:1: contact: "javascript:alert(1)" is a URL with an unsupported scheme; want text such as "Write to support@example.com for more", or a URL: http, https or mailto
stint.yaml:3: tiers[0].contact: " Ask Ann" begins or ends with a space; want text such as "Write to support@example.com for more", or a URL: http, https or mailto
stint.yaml:5: policies[0].contact: has no effect in a policy with skip
stint.yaml:6: policies[1].contact: "https://" is not a URL; want text such as "Write to support@example.com for more", or a URL: http, https or mailto`},
	{"usage", base + "policies:\n  - name: a\n    budget: 1000/1m\n    cost: 5\n    settle: {header: X-Cost}\n    usage:\n      preset: opnai\n" +
		"      max_output: [max_tokens, /a~]\n      input: [\"\", /x, /x]\n      output: X Tokens\n      default_output: 0\n      bytes_per_token: 0\n" +
		"      body: 2MiB\n      missing: event\n      prices: {m: {input: 1000}}\n" +
		"  - {name: b, budget: 10/1m, usage: {input: /x}}\n  - {name: c, match: {path: /c}, skip: true, usage: {preset: openai}}\n" +
		"  - {name: d, budget: 10/1m, usage: {preset: openai, choices: /max_tokens}}\n",
		`stint.yaml:6: policies[0].cost: with usage, a request costs its tokens; want one or the other
stint.yaml:7: policies[0].settle: with usage, the response reports the true cost; want one or the other, or a header field under usage.output
stint.yaml:9: policies[0].usage.preset: unknown preset "opnai"; want anthropic, gemini or openai (did you mean "openai"?)
stint.yaml:10: policies[0].usage.max_output[0]: "max_tokens": a JSON pointer begins with a slash, as in /usage/total_tokens
stint.yaml:10: policies[0].usage.max_output[1]: "/a~": in a JSON pointer ~ is written ~0
stint.yaml:11: policies[0].usage.input[0]: an empty string; want something, or leave it out
stint.yaml:11: policies[0].usage.input[1]: "/x" is listed twice; list it once
stint.yaml:12: policies[0].usage.output: "X Tokens" is neither a JSON pointer nor a header field; want something like /usage/output_tokens or X-Output-Tokens
stint.yaml:13: policies[0].usage.default_output: 0; want at least 1
stint.yaml:14: policies[0].usage.bytes_per_token: 0; want at least 1
stint.yaml:15: policies[0].usage.body: 2097152 bytes; want 1 byte to 1MiB, which every request may take in memory
stint.yaml:16: policies[0].usage.missing: "event"; want estimate or events (did you mean "events"?)
stint.yaml:17: policies[0].usage.prices: no budget counts prices; want one with the name "price", as in price: 50000000/month
stint.yaml:18: policies[1].usage: has neither a preset nor both input and output; want preset: anthropic, gemini or openai
stint.yaml:19: policies[2].usage: has no effect in a policy with skip
stint.yaml:20: policies[3].usage: duplicate pointer /max_tokens; use each pointer once`},
	{"usage that counts nothing", base + "policies:\n  - {name: a, match: {path: /a}, usage: {preset: openai}}\n",
		`stint.yaml:4: policies[0].usage: no budget counts tokens; want one in this policy, as in budget: "tokens: 100000/1m"`},
	{"usage of another API", base + "policies:\n  - {name: a, budget: 9/1m, usage: {preset: anthropic, inject_usage: true}}\n" +
		"  - {name: b, budget: 9/1m, usage: {input: /i, output: /o, inject_usage: true}}\n" +
		"  - {name: c, budget: 9/1m, usage: {preset: openai, input: [/a, /b], output: [/c, /b]}}\n" +
		"  - {name: d, budget: 9/1m, usage: {preset: openai, output: output_tokens}}\n" +
		"  - {name: e, budget: 9/1m, usage: {preset: openai, input: -1}}\n" +
		"  - {name: f, budget: 9/1m, usage: {preset: openai, weights: {input: 0, output: 0}}}\n" +
		"  - {name: g, budget: 9/1m, usage: {preset: openai, weights: {input: -1}, prices: {x: {input: 2.50}}}}\n" +
		"  - {name: h, budget: 9/1m, usage: openai}\n",
		`stint.yaml:4: policies[0].usage.inject_usage: adds an option that only OpenAI's API has, and other APIs always report usage; want preset: openai, or no inject_usage
stint.yaml:5: policies[1].usage.inject_usage: adds an option that only OpenAI's API has, and other APIs always report usage; want preset: openai, or no inject_usage
stint.yaml:6: policies[2].usage.output[1]: "/b" is also under input, so it would count twice; want it in one of the lists
stint.yaml:7: policies[3].usage.output: "output_tokens" is neither a JSON pointer nor a header field; want something like /usage/output_tokens or X-Output-Tokens
stint.yaml:8: policies[4].usage.input: "-1" is neither a JSON pointer nor a header field; want something like /usage/output_tokens or X-Output-Tokens
stint.yaml:9: policies[5].usage.weights: all are 0, so that nothing would count; want 1 or more for input or output
stint.yaml:10: policies[6].usage.weights.input: want a whole number such as 0 or 1000; got "-1"
stint.yaml:10: policies[6].usage.prices.x.input: want a whole number, such as 2500000 for 2.50 dollars if the budget counts millionths of a dollar; got "2.50"
stint.yaml:11: policies[7].usage: want a mapping with keys such as preset, max_output, choices; got "openai"`},
	{"prices of unknown models", base + "policies:\n  - {name: h, budget: 'price: 9/1m', usage: {input: /i, output: /o, prices: {x: {input: 1000}, y: {}}}}\n",
		`stint.yaml:4: policies[0].usage.prices.y: no price; want input and output, per million tokens, as in {input: 2500000, output: 10000000}
stint.yaml:4: policies[0].usage.prices: no place is set for the name of the model, so no request has a price; want model: /model, or a price with the name default`},
	{"prices", "tiers:\n  - {name: all, identity: ip, budget: [\"price: 1000/1d\", 10/1m]}\npolicies:\n  - {name: a, match: {path: /a}, usage: {preset: openai}}\n",
		`stint.yaml:4: policies[0].usage.prices: a budget with the name "price" counts prices, and there are none; want some, as in gpt-4o: {input: 2500000, output: 10000000}, per million tokens`},
	{"control character", base + "store: {prefix: \"\x01\"}\n", `stint.yaml:3: not YAML: control characters are not allowed`},
	{"oversized", base + strings.Repeat("# padding\n", 1<<17), `stint.yaml:1: oversized: the configuration is larger than 1048576 bytes`},
	{"tab", "tiers:\n\t- name: all\n", `stint.yaml:2: a tab in the indentation; want spaces`},
	{"tab further down", "tiers:\n  - name: all\n\tidentity: ip\n", `stint.yaml:3: a tab in the indentation; want spaces`},
	{"unquoted star", base + "policies:\n  - name: a\n    match:\n      host: *.example.com\n",
		`stint.yaml:6: not YAML: did not find expected alphabetic or numeric character: a text that begins with * or & needs quotes, as in "*.example.com"`},
	{"unquoted star and word", base + "policies:\n  - {name: a, match: {host: *example}}\n",
		`stint.yaml:4: *example has no anchor: a text that begins with * needs quotes, and an alias needs its anchor before it`},
	{"unquoted braces", base + "policies:\n  - name: a\n    match: {path: [/users/{id}/x]}\n",
		`stint.yaml:5: not YAML: did not find expected ',' or ']': in brackets, a text with {, }, [, ] or a comma needs quotes`},
	{"unquoted name of a limit", base + "policies:\n  - name: a\n    limits: login: 5/15m\n",
		`stint.yaml:5: not YAML: mapping values are not allowed in this context: a text with ": " in it needs quotes; keys of one mapping are indented alike`},
	{"unquoted name of a limit in a list", base + "policies:\n  - name: a\n    limits:\n      - login: 5/15m\n",
		`stint.yaml:6: policies[0].limits[0]: want a limit such as 100/1m; got a mapping: write "login: 5/15m", with the quotes`},
	{"unclosed quote", base + "store: {url: \"memory}\n", `stint.yaml:3: not YAML: found unexpected end of stream: a quote is not closed`},
	{"no colon", base + "store\n", `stint.yaml:3: not YAML: could not find expected ':': a key without a colon`},
	{"indented otherwise", "tiers:\n  - name: all\n   identity: ip\n",
		`stint.yaml:2: not YAML: did not find expected '-' indicator: elements of one list are indented alike, each with its dash`},

	{"unknown keys", "stroe: {url: memory}\ntiers:\n  - name: all\n    Identity: ip\n    limit: 10/1m\n    colour: red\n",
		`stint.yaml:1: stroe: unknown key (did you mean "store"?)
stint.yaml:4: tiers[0].Identity: unknown key (did you mean "identity"?)
stint.yaml:5: tiers[0].limit: unknown key (did you mean "limits"?)
stint.yaml:6: tiers[0].colour: unknown key; the keys here are name, match, unless, identity, scope, limits, budget, notify, shadow, rollout, bans, failure, contact`},
	{"unknown key that is near is read as what was meant", base + "policys:\n  - name: a\n    identity: usr\n    limits: 5/1m\n",
		`stint.yaml:3: policys: unknown key (did you mean "policies"?)
stint.yaml:5: policies[0].identity: unknown identity "usr"; want everyone, ip or user (did you mean "user"?)`},
	{"unknown key that is near, and the right one", "tiers:\n  - {name: all, identity: ip, limits: 10/1m, limit: 20/1m}\n",
		`stint.yaml:2: tiers[0].limit: unknown key; the keys here are name, match, unless, identity, scope, limits, budget, notify, shadow, rollout, bans, failure, contact`},
	{"keys twice", "tiers:\n  - name: all\n    identity: ip\n    name: some\n    limits: 10/1m\ntiers: []\n",
		`stint.yaml:4: tiers[0].name: duplicate key, first set at stint.yaml:2
stint.yaml:6: tiers: duplicate key, first set at stint.yaml:1`},
	{"names twice", base + "identities:\n  key: {header: X-Key}\n  key: {header: X-Api-Key}\n",
		`stint.yaml:5: identities.key: duplicate key, first set at stint.yaml:4`},
	{"nulls", "tiers:\n  - name:\n    identity: ~\n    limits: null\nstore:\npolicies:\n  -\n",
		`stint.yaml:2: tiers[0].name: no value; want a string, or leave it out
stint.yaml:3: tiers[0].identity: no value; want a string, or a list of several, or leave it out
stint.yaml:4: tiers[0].limits: no value; want a limit such as 100/1m, or a list of several, or leave it out
stint.yaml:5: store: no value; want a mapping with keys such as url, prefix, memory, or leave it out
stint.yaml:7: policies[0]: no value; want a mapping with keys such as name, match, unless, or leave it out`},
	{"kinds", "tiers: {name: all}\nstore: redis://user:secret@localhost\nclaims: [a]\nidentities: ip\nbans: []\n",
		`stint.yaml:1: tiers: want a list, each element a mapping with keys such as name, match, unless; got a mapping
stint.yaml:2: store: want a mapping with keys such as url, prefix, memory; got "redis://…"
stint.yaml:3: claims: want a mapping from names to a string; got a list
stint.yaml:4: identities: want a mapping from names to a mapping with keys such as claim, header, cookie; got "ip"
stint.yaml:5: bans: want a mapping with keys such as after, within, durations; got a list`},
	{"keys that are none", base + "? [a]\n: b\nidentities: {~: {claim: a}, \"\": {claim: b}}\n",
		`stint.yaml:3: want a word as a key; got a list
stint.yaml:5: identities: want a word as a key; got nothing
stint.yaml:5: identities: want a word as a key; got the string ""`},
	{"tags", "tiers: !!seq\n  - {name: !tier all, identity: ip, limits: 10/1m}\n", `stint.yaml:1: tiers: unsupported tag !!seq; want a value without a tag`},
	{"merge key", "x: &x {name: all}\ntiers:\n  - <<: *x\n    identity: ip\n    limits: 10/1m\n",
		`stint.yaml:1: x: unknown key; the keys here are store, failure, client_ip, claims, identities, tiers, policies, bans, request_id, contact, headers, log, outbound, webhooks, gateway
stint.yaml:3: tiers[0]: merge keys ("<<") are not supported; write the keys out, or use an alias for a whole value`},

	{"limits", `tiers:
  - name: all
    identity: ip
    limits:
      - 100
      - ten/1m
      - 10/1w
      - 10/1m brust 2x
      - 10/400d
      - 10/1m burst 500x
      - unlimited/1w
      - unlimited/1h burst 2x
      - Unlimited
    budget: -1/1h
`,
		`stint.yaml:5: tiers[0].limits[0]: "100": no window; want "units/window", such as "100/1m" or "10/1s burst 2x"
stint.yaml:6: tiers[0].limits[1]: "ten/1m": "ten" is not a whole number from 0 to 9007199254740992
stint.yaml:7: tiers[0].limits[2]: "10/1w": window "1w": want a duration such as "1s", "1m30s", "1h" or "1d", or a day, week, month or year
stint.yaml:8: tiers[0].limits[3]: "10/1m brust 2x": unknown word "brust"; want burst, sliding, bucket, fixed, concurrency, leased, hold-through, charge-expired
stint.yaml:9: tiers[0].limits[4]: "10/400d": window "400d": want at most 366 days
stint.yaml:10: tiers[0].limits[5]: "10/1m burst 500x": a burst of 5000; want a multiple of the maximum of 10, at most 100 times
stint.yaml:11: tiers[0].limits[6]: "unlimited/1w": window "1w": want a duration such as "1s", "1m30s", "1h" or "1d", or a day, week, month or year
stint.yaml:12: tiers[0].limits[7]: "unlimited/1h burst 2x": want only a window after unlimited/, as in unlimited/1d
stint.yaml:13: tiers[0].limits[8]: "Unlimited": no window; want "units/window", such as "100/1m" or "10/1s burst 2x" (did you mean "unlimited"?)
stint.yaml:14: tiers[0].budget: "-1/1h": a maximum of -1; want 0 to 9007199254740992`},
	{"notify", `claims: {user: "", plan: ""}
tiers:
  - {name: a, identity: user, limits: 100/1m, notify: [50%, 80%]}
  - {name: b, identity: user, match: {claim: {plan: b}}, limits: [10/1s, 100/month], notify: [80%, 50%, 101%]}
  - {name: c, identity: user, match: {claim: {plan: c}}, limits: 100/30s fixed, notify: 80}
  - {name: d, identity: user, match: {claim: {plan: d}}, limits: unlimited, notify: 0.8}
  - {name: e, identity: ip, limits: unlimited, notify: 80%}
policies:
  - {name: p, match: {path: /p}, limits: {a: 5/1s, default: 10/1m burst 2x bucket}, budget: 3/30s, notify: 100%}
  - {name: q, match: {path: /q}, skip: true, notify: 100%}
  - {name: r, match: {path: /r}, limits: 100/30s fixed, notify: 80%}
webhooks:
  - {url: http://example.com, key_file: a}
  - {url: https://example.com}
`,
		`stint.yaml:3: tiers[0].notify: 100/1m has no period in which its usage can be reported; want a quota of a day, week, month or year, such as 100/month, or a fixed window, such as 100/1h fixed
stint.yaml:4: tiers[1].notify[1]: 50% after 80%; want each share once, in ascending order
stint.yaml:4: tiers[1].notify[2]: 101%; want 1% to 100%, which is the first denial
stint.yaml:5: tiers[2].notify: want a share such as 80%; got "80": write 80%
stint.yaml:6: tiers[3].notify: want a whole percentage such as 80%; got "0.8"
stint.yaml:7: tiers[4].notify: has no limit whose usage can be reported; want a quota, such as 10000/month
stint.yaml:9: policies[0].notify: 3/30s has no period in which its usage can be reported; want a quota of a day, week, month or year, such as 3/month, or a fixed window, such as 3/1h fixed
stint.yaml:10: policies[1].notify: has no effect in a policy with skip
stint.yaml:11: policies[2].notify: 100/30s fixed: its periods are too short to be reported; want a window of 1m or more
stint.yaml:13: webhooks[0].url: http:// does not protect what is posted; want https://, or this machine, such as http://localhost:9000
stint.yaml:14: webhooks[1].key_file: is missing; want a file with a secret of at least 16 bytes, which the receiver uses to verify posts`},
	{"limits by claim", `tiers:
  - name: a
    match: {path: /a}
    identity: ip
    limits:
      - {limit: 60/1m, claim: rpm}
      - {limit: 60/hour, claim: rph, max: 1000}
      - {limit: unlimited, claim: rps, max: 10}
      - {limit: 0/1m burst 3x, claim: rpm, max: 10}
      - {limit: 60/1m, clam: rpm, max: ten}
      - login: 5/15m
    budget: {limit: 60/1m, claim: rpm, max: 59}
  - {name: b, identity: ip, limits: {limit: 60/1m, claim: "", max: 100}}
policies:
  - {name: p, limits: {a: {limit: 60/1m, claim: rpm, max: 0}, b: {limit: 6/1m, claim: rpm, maximum: 9}}}
outbound: {api: {limits: {limit: 60/1m, claim: rpm, max: 100}}}
`,
		`stint.yaml:6: tiers[0].limits[0]: want limit, claim and max, as in {limit: 60/1m, claim: rpm, max: 10000}
stint.yaml:7: tiers[0].limits[1].limit: "60/hour": write 60/1h
stint.yaml:8: tiers[0].limits[2].limit: requests without the claim would have no limit; want one, or 0/1m to deny them
stint.yaml:9: tiers[0].limits[3].limit: "0/1m burst 3x": a burst is a multiple of the number, so 0 has none; want another number, or no burst
stint.yaml:10: tiers[0].limits[4].clam: unknown key (did you mean "claim"?)
stint.yaml:10: tiers[0].limits[4].max: want a whole number such as 0 or 1000; got "ten"
stint.yaml:11: tiers[0].limits[5]: want a limit such as 100/1m; got a mapping: write "login: 5/15m", with the quotes
stint.yaml:12: tiers[0].budget.max: 59 is below the 60 of requests without the claim
stint.yaml:13: tiers[1].limits: want limit, claim and max, as in {limit: 60/1m, claim: rpm, max: 10000}
stint.yaml:15: policies[0].limits.b.maximum: unknown key; the keys here are limit, claim, max
stint.yaml:15: policies[0].limits.b: want limit, claim and max, as in {limit: 60/1m, claim: rpm, max: 10000}
stint.yaml:15: policies[0].limits.a.max: 0; want the largest number that the claim may give, 1 to 9007199254740992
stint.yaml:16: outbound.api.limits: want a limit such as 100/1m, or a list of several; got a mapping`},
	{"scalars", `tiers:
  - {name: a, identity: user, limits: 10/1m, shadow: yes}
  - {name: b, identity: user, limits: 10/1m, shadow: "true"}
  - {name: all, identity: ip, limits: 10/1m}
client_ip: {ipv6_prefix: 0x40}
bans: {after: "5", within: 15, durations: [-1m, 500d, 9999999h]}
policies:
  - {name: a, limits: 1/1s, rollout: 25}
  - {name: b, limits: 1/1s, rollout: half}
  - {name: c, settle: {bytes: 1kb}, refund: [5xx, 6xx]}
  - {name: d, settle: {bytes: 9999999999GiB}, match: {path: {a: b}, header: [X-Key]}, cost: []}
outbound: {c: {limits: 1/1s, retries: 99999999999999999999}}
`,
		`stint.yaml:2: tiers[0].shadow: want true or false; got "yes": write true
stint.yaml:3: tiers[1].shadow: want true or false; got the string "true": write true
stint.yaml:5: client_ip.ipv6_prefix: want a whole number such as 0 or 1000; got "0x40"
stint.yaml:6: bans.after: want a whole number; got the string "5": leave out the quotes
stint.yaml:6: bans.within: 15 has no unit; want a duration such as 15ms, 1m30s, 1h or 1d
stint.yaml:6: bans.durations[0]: want a duration such as 15ms, 1m30s, 1h or 1d; got "-1m"
stint.yaml:6: bans.durations[1]: want at most 366d; got "500d"
stint.yaml:6: bans.durations[2]: want at most 366d; got "9999999h"
stint.yaml:8: policies[0].rollout: want a percentage from 0% to 100%; got "25": write 25%
stint.yaml:9: policies[1].rollout: want a percentage from 0% to 100%; got "half"
stint.yaml:10: policies[2].settle.bytes: want a number of bytes such as 1024, 1KiB or 1MB; got "1kb"
stint.yaml:10: policies[2].refund[1]: want a status such as 404 or a class such as 5xx; got "6xx"
stint.yaml:11: policies[3].settle.bytes: want at most 9007199254740992 bytes; got "9999999999GiB"
stint.yaml:11: policies[3].match.path: want a string, or a list of several; got a mapping
stint.yaml:11: policies[3].match.header: want a mapping from names to a string, or a list of several; got a list
stint.yaml:11: policies[3].cost: want a number of units, or a mapping with the key header; got a list
stint.yaml:12: outbound.c.retries: want at most 9007199254740992; got "99999999999999999999"`},
	{"words", base + "failure: {mode: dney}\nclient_ip: {trusted_proxies: [\"\", []]}\npolicies:\n  - {name: a, match: {method: []}, limits: 1/1s}\n",
		`stint.yaml:3: failure.mode: want local, allow, deny or error; got "dney" (did you mean "deny"?)
stint.yaml:4: client_ip.trusted_proxies[0]: an empty string; want something, or leave it out
stint.yaml:4: client_ip.trusted_proxies[1]: want a string; got a list
stint.yaml:6: policies[0].match.method: an empty list; want a string, or leave it out`},
	{"values of the wrong kind hide nothing elsewhere", `store: redis
client_ip: {trusted_proxies: {a: b}}
claims: {plan: X-Plan, user: ""}
identities:
  key: {header: [X-Key]}
tiers:
  - name: [pro]
    match:
    identity: [key, user]
    limits: {all: 1/1m}
  - {name: all, identity: usr, limits: 10/1m}
policies:
  - {name: a, match: /x, per: id, limits: {pro: 1/1m}}
  - {name: b, identity: nobody, limits: 1/1s}
  - {name: b, cost: [], limits: 0/0s}
gateway:
  routes:
    - {host: {}, upstream: http://a}
    - {upstream: ftp://b}
`,
		`stint.yaml:1: store: want a mapping with keys such as url, prefix, memory; got "redis"
stint.yaml:2: client_ip.trusted_proxies: want a string, or a list of several; got a mapping
stint.yaml:5: identities.key.header: want a string; got a list
stint.yaml:7: tiers[0].name: want a string; got a list
stint.yaml:8: tiers[0].match: no value; want a mapping with keys such as host, path, method, or leave it out
stint.yaml:10: tiers[0].limits: want a limit such as 100/1m, or a list of several; got a mapping
stint.yaml:11: tiers[1].identity: unknown identity "usr"; want everyone, ip, key or user (did you mean "user"?)
stint.yaml:13: policies[0].match: want a mapping with keys such as host, path, method; got "/x"
stint.yaml:14: policies[1].identity: unknown identity "nobody"; want everyone, ip, key or user
stint.yaml:15: policies[2].cost: want a number of units, or a mapping with the key header; got a list
stint.yaml:15: policies[2].limits: "0/0s": a window of 0s; want 1ms to 366 days
stint.yaml:15: policies[2].name: another policy is named "b", number 2; names must be unique
stint.yaml:18: gateway.routes[0].host: want a string, or a list of several; got a mapping
stint.yaml:19: gateway.routes[1].upstream: invalid upstream "ftp://b"; want a URL such as http://127.0.0.1:3000, with http, https or h2c`},
	{"unknown and duplicate keys hide nothing elsewhere", base + "headers: {color: red}\nbnas: {after: 0}\nstore: {url: memory}\nstore: {}\npolicies:\n  - {name: a, identity: nobody, limits: 1/1s, rollout: 5}\n  - {name: b, limits: {some: 1/1s}, ~: 1}\n",
		`stint.yaml:3: headers.color: unknown key; the keys here are format, reset, retry_after_jitter
stint.yaml:4: bnas: unknown key (did you mean "bans"?)
stint.yaml:6: store: duplicate key, first set at stint.yaml:5
stint.yaml:8: policies[0].rollout: want a percentage from 0% to 100%; got "5": write 5%
stint.yaml:8: policies[0].identity: unknown identity "nobody"; want everyone, ip or user
stint.yaml:9: policies[1]: want a word as a key; got nothing
stint.yaml:9: policies[1].limits.some: unknown tier "some"; want default or all`},
	{"tiers that cannot be read are not missing", "tiers: 5\npolicies: [{name: a, limits: {pro: 1/1s}, identity: usr}]\n",
		`stint.yaml:1: tiers: want a list, each element a mapping with keys such as name, match, unless; got "5"
stint.yaml:2: policies[0].identity: unknown identity "usr"; want everyone, ip or user (did you mean "user"?)`},
	{"several bad proxies", base + "client_ip: {trusted_proxies: [10.0.0.0/33, 10.0.0.0/8, proxy, 10.1.2.3/8]}\n",
		`stint.yaml:3: client_ip.trusted_proxies[0]: is "10.0.0.0/33"; want a prefix such as 10.0.0.0/8, an address, or one of loopback, private and unix
stint.yaml:3: client_ip.trusted_proxies[2]: is "proxy"; want a prefix such as 10.0.0.0/8, an address, or one of loopback, private and unix
stint.yaml:3: client_ip.trusted_proxies[3]: is 10.1.2.3/8, which has bits set beyond its length; want 10.0.0.0/8 for the network, or 10.1.2.3/32 for the address`},
	{"missing names", "tiers:\n  - {identity: user, limits: 10/1m}\n  - {name: all, identity: ip, limits: 10/1m}\npolicies:\n  - {limits: 1/1s}\n  - {name: \"\", limits: 1/1s}\n",
		`stint.yaml:2: tiers[0].name: is missing; want 1 to 64 letters, digits and _-.
stint.yaml:5: policies[0].name: is missing; want 1 to 64 letters, digits and _-.
stint.yaml:6: policies[1].name: is missing; want 1 to 64 letters, digits and _-.`},
	{"windows in words", "tiers:\n  - {name: all, identity: ip, limits: [10/minute, 100/hours burst 2x, 5 per 30 seconds], budget: \"cpu: 5/days\"}\n",
		`stint.yaml:2: tiers[0].limits[0]: "10/minute": write 10/1m
stint.yaml:2: tiers[0].limits[1]: "100/hours burst 2x": write 100/1h burst 2x
stint.yaml:2: tiers[0].limits[2]: "5 per 30 seconds": write 5/30s
stint.yaml:2: tiers[0].budget: the string "cpu: 5/days": write cpu: 5/1d`},
	{"warnings beside mistakes", base + "client_ip: {trusted_proxies: 0.0.0.0/0}\npolicies:\n  - {name: a, identity: nobody, limits: 1/1s}\n",
		`stint.yaml:3: warning: client_ip.trusted_proxies: "0.0.0.0/0" is every IPv4 address: anyone in it can set the client's address and claims in headers; list only your own proxies
stint.yaml:5: policies[0].identity: unknown identity "nobody"; want everyone, ip or user`},
	{"lines of aliases", "tiers:\n  - {name: a, identity: &who usr, limits: 1/1s}\n  - {name: all, identity: ip, limits: 10/1m}\npolicies:\n  - {name: b, identity: *who, limits: 1/1s}\n",
		`stint.yaml:2: tiers[0].identity: unknown identity "usr"; want everyone, ip or user (did you mean "user"?)
stint.yaml:5: policies[0].identity: unknown identity "usr"; want everyone, ip or user (did you mean "user"?)`},
	{"control characters in what is shown", base + "identities:\n  \"a\\nb\": {claim: x}\n",
		`stint.yaml:4: identities.a�b: "a\nb" is not a valid name; want 1 to 64 letters, digits and _-.`},
}
