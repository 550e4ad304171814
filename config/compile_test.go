package config

import (
	"errors"
	"strings"
	"testing"
)

// TestCompileMistakes is what can be read but means nothing: each file has one mistake, with its
// place and what to do.
func TestCompileMistakes(t *testing.T) {
	const tail = "\ntiers: [{name: anyone, identity: ip, limits: 10/1m}]\n"
	tests := []struct{ name, config, want string }{
		{"store", "store: {url: localhost:6379}" + tail, `:1: store.url: the URL of Redis: it does not begin with redis://, rediss:// or unix://`},
		{"no password in messages", "store: {url: 'http://:hunter2@x'}" + tail, `; or want "memory"`},
		{"prefix", "store: {prefix: 'a{b'}" + tail, `store.prefix: "a{b" contains a brace`},
		{"previous name key alone", "store: {previous_name_key_file: a}" + tail, `:1: store.previous_name_key_file: needs the name_key_file that replaces it`},
		{"name key of nothing", "store: {name_key_file: ''}" + tail, `store.name_key_file: want the path of a file`},
		{"budget of nothing", "failure: {budget: 0s}" + tail, `failure.budget: a decision needs some time`},
		{"memory of a Redis", "store: {url: 'redis://localhost:6379', memory: 1MiB}" + tail, `:1: store.memory: is for the store in memory`},
		{"an authority without TLS", "store: {url: 'redis://h', ca_file: a}" + tail,
			`:1: store.url: ca_file or cert_file is set, but the URL does not use TLS; want one that begins with rediss://`},
		{"a name key for memory", "store: {url: memory, name_key_file: key}" + tail,
			`:1: store.name_key_file: is for names in Redis`},
		{"little memory", "store: {memory: 1KiB}" + tail, `:1: store.memory: 1024 bytes is too little; want 1MiB or more`},
		{"breaker of a tier", "tiers: [{name: a, identity: ip, limits: 1/1m, failure: {breaker: {failures: 2}}}]", `tiers[0].failure.breaker: applies to all`},
		{"breaker without failures", "failure: {breaker: {failures: 0}}" + tail,
			`failure.breaker.failures: 0; want 1 or more`},
		{"breaker without a pause", "failure: {breaker: {probe: 1ms}}" + tail,
			`failure.breaker.probe: 1ms; want 10ms or more`},
		{"prefix length", "client_ip: {ipv6_prefix: 129}" + tail, `client_ip.ipv6_prefix: 129; want 1 to 128`},
		{"client header", "client_ip: {header: 'a b'}" + tail, `client_ip.header: `},
		{"claims without proxies", "claims: {user: X-User}" + tail, `claims: are accepted only from trusted proxies`},
		{"claim header", "client_ip: {trusted_proxies: loopback}\nclaims: {user: 'X User'}" + tail, `:2: claims.user: "X User" is not the name of a header`},
		{"identity ip", "identities: {ip: {header: X}}" + tail, `identities.ip: is the name of a predefined identity`},
		{"identity of nothing", "identities: {a: {type: b}}" + tail, `identities.a: has 0 of claim, header, cookie and all`},
		{"plain claim", "identities: {a: {claim: x, plain: true}}" + tail,
			`identities.a.plain: applies only to headers and cookies`},
		{"one type for two", "identities: {a: {claim: x, type: user}}" + tail, `"user" is also the type of`},
		{"unknown part", "identities: {a: {all: [ip, b]}}" + tail, `identities.a.all[1]: unknown identity "b"`},
		{"part of everyone", "identities: {a: {all: [ip, everyone]}}" + tail, `identities.a.all[1]: "everyone" cannot be a part`},
		{"one part", "identities: {a: {all: ip}}" + tail, `identities.a.all: has one part`},
		{"request id", "request_id: {life: 1h}" + tail, `request_id`},
		{"request id's life", "request_id: {header: X, life: 0s}" + tail, `request_id.life: 0s; want`},
		{"bans", "bans: {after: 5, within: 1m}" + tail, `bans.durations: there are 0; want 1 to 16`},
		{"bans without after", "bans: {within: 1m}" + tail, `bans.within: has no effect without after`},
		{"too many denials", "bans: {after: 500, within: 1m, durations: [1m]}" + tail,
			`bans.after: 500; want 1 to 125`},
		{"header format", "headers: {format: draft-10}" + tail, `headers.format: "draft-10"; want x, draft-11 or none (did you mean "draft-11"?)`},
		{"no format and one", "headers: {format: [none, x]}" + tail, `"none" excludes other formats`},
		{"reset", "headers: {reset: unix}" + tail, `headers.reset: "unix"; want epoch or delta`},
		{"no tiers", "policies: [{name: a, limits: 1/1m}]", `tiers: there are none; want at least one`},
		{"last tier", "tiers: [{name: a, identity: user, limits: 1/1m}]", `tiers[0]: is the last tier and must take every request`},
		{"tier without identity", "tiers: [{name: a, limits: 1/1m}]", `tiers[0].identity: is missing`},
		{"tier twice", "tiers: [{name: a, identity: user, limits: 1/1m}, {name: a, identity: ip, limits: 1/1m}]", `tiers[1].name: another tier is named "a", number 1`},
		{"tier without limits", "tiers: [{name: a, identity: ip}]", `tiers[0]: has neither limits nor a budget`},
		{"tier called default", "tiers: [{name: default, identity: ip, limits: 1/1m}]", `"default" is reserved`},
		{"scope", "tiers: [{name: a, identity: ip, scope: 'a b', limits: 1/1m}]", `tiers[0].scope: "a b" is not a valid name; want`},
		{"scope of no route", "tiers: [{name: a, identity: ip, scope: other, limits: 1/1m}]", `tiers[0].scope: "other" is the scope of requests without a route`},
		{"policy called like a scope", "tiers: [{name: a, identity: ip, scope: api, limits: 1/1m}]\npolicies: [{name: api, limits: 1/1m}]",
			`policies[0].name: "api" is a scope that tiers count in`},
		{"never looked at", "tiers: [{name: a, identity: [ip, user], limits: 1/1m}]", `tiers[0].identity[0]: every request has "ip"`},
		{"two limits in one", "tiers: [{name: a, identity: ip, limits: [1/1m, 2/60s]}]", `2/1m has the same algorithm and window as another limit; give one of them a name, such as "other: 2/1m"`},
		{"places in a budget", "tiers: [{name: a, identity: ip, budget: 5/1m concurrency}]", `every request takes one place`},
		{"shadow and rollout", "tiers: [{name: a, identity: ip, limits: 1/1m, shadow: true, rollout: 5%}]", `tiers[0].rollout: with shadow: true`},
		{"places in shadow", "tiers: [{name: a, identity: ip, limits: 5/1m concurrency, rollout: 50%}]", `tiers[0].limits: a concurrency limit cannot be in shadow`},
		{"too many", "tiers:\n" + strings.Repeat("  - {name: x, identity: ip, limits: 1/1m}\n", 101), `:1: there are 101 tiers and 0 policies; want at most 100 and 1000`},
		{"never reached", "tiers: [{name: a, identity: ip, limits: 1/1m}, {name: b, identity: ip, limits: 1/1m}]", `tiers[1]: is never reached: the tier "a" before it matches every caller`},
		{"API with two limits in one", tail + "outbound: {x: {limits: [1/1s, 2/1s]}}", `outbound.x.limits: 2/1s has the same algorithm and window as another limit; give one of them a name, such as "other: 2/1s"`},
		{"port", "store: {url: 'redis://host:port/0'}" + tail, `store.url: the URL of Redis: it cannot be parsed; want redis://`},
		{"parameter", "store: {url: 'redis://host?mastr_set=main'}" + tail, `(did you mean "master_set"?)`},
		{"too many instances", "failure: {instances: 2000000}" + tail, `failure.instances: 2000000; want at most 1048576`},
		{"path", tail + "policies: [{name: p, match: {path: ['/a', '*.css']}, limits: 1/1m}]", `policies[0].match.path[1]: path "*.css" does not begin with /`},
		{"an hour's budget", "failure: {budget: 1h}" + tail, `failure.budget: 1h0m0s is too long for callers to wait`},
		{"empty failure", "failure: {}" + tail, `failure: is empty`},
		{"cost of nothing by default", tail + "policies: [{name: p, cost: {header: X, default: 0, max: 9}, settle: {header: Y}}]", `a request that costs nothing is not charged`},
		{"per any host", tail + "policies: [{name: p, per: host, limits: 1/1m}]", `clients can invent hosts`},
		{"too many at once", tail + "policies: [" + numbered("{name: p%d, limits: 1/1m}", 16) + "]", `tiers[0]: every request of the tier is counted 17 times under 17 limits`},
		{"an API that is an identity", tail + "outbound: {user: {limits: 1/1s}}", `outbound.user: is also the type of the identity "user"`},
		{"retries without waiting", tail + "outbound: {x: {preset: igdb, fail_fast: true, retries: 1}}", `a retry has to wait; want one or the other`},
		{"policy's identity", tail + "policies: [{name: p, identity: user, limits: 1/1m}]", `policies[0].identity: a request may not have it`},
		{"policy called global", tail + "policies: [{name: global, limits: 1/1m}]",
			`"global" is a scope that tiers count in`},
		{"policy of nothing", tail + "policies: [{name: p, match: {method: GET}}]", `policies[0]: does nothing`},
		{"policy of nothing that is no route", "tiers: [{name: a, identity: ip, scope: route, limits: 1/1m}]\npolicies: [{name: p, match: {header: {A: b}}}]",
			`policies[0]: does nothing`},
		{"shadow of nothing", tail + "policies: [{name: p, cost: 2, shadow: true}]",
			`which apply only to limits, but no limits`},
		{"skips all", tail + "policies: [{name: p, skip: true}]", `skips every request`},
		{"skips with limits", tail + "policies: [{name: p, match: {method: GET}, skip: true, limits: 1/1m}]", `policies[0].limits: has no effect in a policy with skip`},
		{"unknown tier", tail + "policies: [{name: p, limits: {anyones: 1/1m}}]", `unknown tier "anyones"; want default or anyone (did you mean "anyone"?)`},
		{"per nothing", tail + "policies: [{name: p, per: org, limits: 1/1m}]", `policies[0].per: "org"; want method, host or route, or a variable`},
		{"per another variable", tail + "policies: [{name: p, match: {path: '/{id}'}, per: [method, ids], limits: 1/1m}]", `policies[0].per[1]: the path /{id} has no variable {ids}`},
		{"empty match", tail + "policies: [{name: p, match: {}, limits: 1/1m}]", `policies[0].match`},
		{"host", tail + "policies: [{name: p, match: {host: 'example.com:80'}, limits: 1/1m}]", `policies[0].match.host: "example.com:80" is not a host`},
		{"method", tail + "policies: [{name: p, match: {method: get}, limits: 1/1m}]", `methods are in upper case`},
		{"network", tail + "policies: [{name: p, match: {network: unix}, limits: 1/1m}]", `"unix" is not a network`},
		{"any and one", tail + "policies: [{name: p, match: {header: {X-A: [b, '*']}}, limits: 1/1m}]", `"*" matches any value, so the others have no effect`},
		{"cost header without max", tail + "policies: [{name: p, cost: {header: X-Cost}}]",
			`clients choose the value of the header X-Cost; want a max`},
		{"cost bounds", tail + "policies: [{name: p, cost: {header: X-Cost, min: 9, max: 5}}]", `min 9 is above max 5`},
		{"cost bounds without header", tail + "policies: [{name: p, cost: {max: 5}}]",
			`want a number, or a header with the number`},
		{"settle both ways", tail + "policies: [{name: p, settle: {header: X, bytes: 1}}]", `policies[0].settle: want either header or bytes`},
		{"no debt", tail + "policies: [{name: p, settle: {header: X, max_debt: 0}}]", `policies[0].settle.max_debt: 0; want at least 1`},
		{"debt past counting", tail + "policies: [{name: p, settle: {header: X, max_debt: 9007199254740993}}]", `policies[0].settle.max_debt: want at most 9007199254740992`},
		{"settle what costs nothing", tail + "policies: [{name: p, cost: 0, settle: {header: X}}]", `a request that costs nothing is not charged`},
		{"settle what may cost nothing", tail + "policies: [{name: p, cost: {header: X, min: 0, max: 9}, settle: {header: Y}}]", `a request that costs nothing is not charged`},
		{"no hold", tail + "policies: [{name: p, limits: 9/1m, hold: 0s}]", `policies[0].hold: 0s; want the longest time between two heartbeats`},
		{"a long hold", tail + "policies: [{name: p, hold: 25h}]", `policies[0].hold: 25h0m0s; want whole microseconds from 1ms to 24h0m0s`},
		{"costs of no budget", tail + "policies: [{name: p, costs: {tokens: 1}}]", `policies[0].costs.tokens: no budget has a limit "tokens"; want a budget with a name, as in tokens: 100000/1m`},
		{"costs of another budget", tail + "policies: [{name: p, budget: 'tokens: 9/1m', costs: {token: 1}}]", `policies[0].costs.token: no budget has a limit "token"; want tokens (did`},
		{"a hold of one name twice", "tiers: [{name: a, identity: ip, limits: 'n: 9/1m', budget: 'n: 9/1h'}]\npolicies: [{name: p, hold: 5m}]", `limits and budget both have the name "n", but policies[0].hold holds units by name`},
		{"a hold of one name twice, in a policy", "tiers: [{name: a, identity: ip, limits: 9/1m}]\npolicies:\n  - {name: p, hold: 5m}\n  - name: q\n    match: {path: /q}\n    limits: 'n: 9/1m'\n    budget: 'n: 9/1h'", `7: policies[1].budget: limits and budget both have the name "n"`},
		{"a hold of one name twice, by routes", "tiers: [{name: a, identity: ip, limits: 9/1m, scope: route}]\npolicies:\n  - name: p\n    match: {path: /p}\n    hold: 5m\n    limits: 9/1h", `6: policies[0].limits: a limit of the policy and one of the tier "a", which counts per route, both have the name ""`},
		{"a bucket that holds through", "tiers: [{name: a, identity: ip, budget: 9/1m bucket hold-through}]", `cannot hold through`},
		{"clash per route", "tiers: [{name: a, identity: ip, scope: route, limits: 9/1m}]\npolicies: [{name: p, match: {path: /}, limits: 5/60s}]", `the tier "a", which counts per route, so both would share a count; give it a name, such as "p: 5/1m"`},
		{"preset", tail + "outbound: {x: {preset: idgb}}", `unknown preset "idgb"; want igdb, musicbrainz, rcsb, spotify or tmdb (did you mean "igdb"?)`},
		{"usage of an API", tail + "outbound: {x: {limits: 1/1s, usage: opnai}}", `outbound.x: unknown usage format "opnai"; want anthropic, gemini or openai (did you mean "openai"?)`},
		{"usage without tokens", tail + "outbound: {x: {limits: 1/1s, usage: openai}}", `outbound.x: no limit counts tokens; want one with the name tokens, input_tokens or output_tokens, as in tokens: 30000/1m`},
		{"API without limits", tail + "outbound: {x: {max_wait: 1s}}", `outbound.x: has neither limits nor a preset`},
		{"retries", tail + "outbound: {x: {preset: igdb, retries: 11}}", `outbound.x: 11 retries; want 0 to 10`},
		{"waiting and not", tail + "outbound: {x: {preset: igdb, fail_fast: true, max_wait: 1s}}", `has no effect with fail_fast, because no call waits`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("stint.yaml", []byte(test.config))
			var mistaken *Error
			if !errors.As(err, &mistaken) {
				t.Fatalf("got %v, want a Error", err)
			}
			if len(mistaken.Mistakes) != 1 {
				t.Errorf("%d mistakes, want 1:\n%v", len(mistaken.Mistakes), err)
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}
