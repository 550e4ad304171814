package config

// beyond are files that the reader refuses and no schema can, with the reason.
var beyond = map[string]string{
	"two documents":    "it is of one document",
	"oversized":        "it knows no size",
	"contacts":         "it does not read URLs",
	"prices":           "it does not know which budgets there are",
	"tags":             "it is of values, not of how they are written",
	"lines of aliases": "it does not know which identities there are",

	"usage that counts nothing": "it does not know which budgets there are",
	"prices of unknown models":  "it does not compare keys",

	"several bad proxies":      "it does not read networks",
	"derived ids and places":   "it does not compare sections",
	"warnings beside mistakes": "it does not know which identities there are",

	"retries: 0x4": "it is of values, not of how they are written",
	"retries: 010": "it is of values, not of how they are written",
	"retries: 1_0": "it is of values, not of how they are written",
	"retries: 11":  "bounds that only the compiler has",
	"shadow: True": "it is of values, not of how they are written",
	"limits: {limit: 60/1m, claim: rpm, max: 59}":                      "it does not compare values",
	"limits: {limit: 0/1m burst 2x, claim: rpm, max: 100}":             "bounds that only a limit has",
	"limits: {limit: 1/7d burst 100x, claim: rpm, max: 9007199254740}": "bounds that only a limit has",
	"max_wait: 367d":                    "it does not add up times",
	"max_wait: 9999999h":                "it does not add up times",
	"limits: 10/367d":                   "it does not add up times",
	"limits: 10/0s":                     "it does not add up times",
	"limits: 10/1us":                    "it does not add up times",
	"limits: 10/1.1.1s":                 "it does not parse numbers",
	"limits: 10/1m burst 200x":          "bounds that only a limit has",
	"limits: 10/1m burst 15":            "bounds that only a limit has",
	"limits: 20/30s concurrency leased": "which limits can be leased",
	"bytes: 99999999999999GiB":          "it does not multiply",
	"bytes: 99999999999999999999":       "it does not multiply",
	"notify: [80%, 50%]":                "it does not compare values",
	"limits: [10/1m, 20/1m]":            "limits that would share their count",
	"bytes: 01":                         "it is of values, not of how they are written",
	"identities: {a: {}}":               "which keys go together",
	"gateway: {routes: []}":             "lists of mappings may be empty",
	"tiers to limits: {other: 1/1s}":    "it does not know which tiers there are",
}

// forms are good and bad values, one in each file: the tables of several mistakes do not tell which
// of them a schema minds.
var forms = []struct {
	key, text string
	values    []string
}{
	{"limits", "tiers: [{name: a, identity: ip, limits: VALUE}]", []string{
		"10/1m", "10/m", "10/d", "10/1d12h", "10/1h30m", "10/m30s", "10/1.5h", "10/.5s", "0/1s", `"login: 5/15m"`,
		`"a:1/s"`, `" 10/1m "`, "10/1m burst 2x",
		"10/1s burst 25 bucket", "20/30s concurrency", "100/1m sliding leased", "10/1m  fixed", "unlimited",
		"100/1d hold-through charge-expired", "100/1d charge-expired hold-through",
		"unlimited/1d", "[10/1m, 100/1h]", "[unlimited]",
		"10", "10/", "/1m", "10/1w", "ten/1m", "-1/1m", "+1/1m", "1.5/1m", "10/-1m", "10/1m burst", "10/1m burst x",
		"10/1m brust 2x", "10/1m leased fixed", "10 / 1m",
		`": 10/1m"`, `"a b: 10/1m"`, `""`, "[]", "[[10/1m]]", "[10]", "Unlimited", "unlimited/", "unlimited/1w",
		"unlimited/1d burst 2x", "{}", "~", "true",
		"10/367d", "10/0s", "10/1us", "10/1.1.1s", "10/1m burst 200x", "10/1m burst 15", "20/30s concurrency leased",
		"[10/1m, 20/1m]",
		"{limit: 60/1m, claim: rpm, max: 100}", "[5/1s, {limit: 60/1m burst 2x, claim: rpm, max: 100}]",
		"{limit: 0/1m, claim: rpm, max: 100}", `{limit: "a: 3/30s concurrency", claim: rpm, max: 100}`,
		"{limit: 60/1m, claim: rpm}", "{limit: 60/1m, max: 100}", "{claim: rpm, max: 100}", "[{}]",
		"{limit: 60, claim: rpm, max: 100}", "{limit: unlimited, claim: rpm, max: 100}",
		"{limit: 60/1m, claim: rpm, max: -1}", "{limit: 60/1m, claim: [rpm], max: 100}",
		"{limit: 60/1m, claim: rpm, maximum: 100}", "{limit: 60/1m, claim: rpm, max: 100, per: 1m}",
		"[[{limit: 60/1m, claim: rpm, max: 100}]]", "{free: 60/1m}",
		`{limit: 60/1m, claim: "", max: 100}`, "{limit: 60/1m, claim: rpm, max: 0}",
		"{limit: 60/1m, claim: rpm, max: 59}",
		"{limit: 0/1m burst 2x, claim: rpm, max: 100}", "{limit: 1/7d burst 100x, claim: rpm, max: 9007199254740}",
	}},
	{"outbound limits", base + "outbound: {a: {limits: VALUE}}", []string{
		"10/1m", "[10/1m, 100/1h]", "{limit: 60/1m, claim: rpm, max: 100}", "[{limit: 60/1m, claim: rpm, max: 100}]",
	}},
	{"max_wait", base + "outbound: {a: {limits: 1/1s, max_wait: VALUE}}", []string{
		"15ms", "1m30s", "1h", "1d", "1d12h", "0s", "0d", "1.5h", "100us", "100µs", `"1s"`, "366d",
		"15", "0", "1.5", "1w", "-1s", "+1s", "1 s", "s", "d", ".5s", "1.s", `""`, "[1s]", "{}", "~", "true", "1s1d",
		"367d", "9999999h",
	}},
	{"notify", "tiers: [{name: a, identity: ip, limits: 10/month, notify: VALUE}]", []string{
		"80%", "[50%, 80%, 100%]", "[80%]", `"5%"`, "1%",
		"80", "0.8", "0%", "101%", "99.5%", "-1%", "05%", "%", "80 %", "[]", "[[80%]]", "{}", "~", "true", "[80%, 50%]",
	}},
	{"webhooks", base + "webhooks: VALUE", []string{
		"[{url: https://example.com, key_file: k}]", "[{url: https://example.com}]", "[{key_file: k}]", "[]", "{}", "~",
	}},
	{"rollout", "tiers: [{name: a, identity: ip, limits: 1/1s, rollout: VALUE}]", []string{
		"0%", "25%", "100%", "0.5%", "99.9%", "100.0%", `"5%"`, "05%",
		"25", "0.25", "101%", "100.5%", "-1%", "%", "25 %", "25%%", "1e1%", ".5%", "half", "[25%]", "~", "true",
	}},
	{"bytes", base + "policies: [{name: p, settle: {bytes: VALUE}}]", []string{
		"1", "1024", `"1024"`, "1B", "1KiB", "10MiB", "1GiB", "1KB", "1MB", "1GB",
		"0", "-1", "1.5", "1.5KiB", "1k", "1kb", "1 KB", "KB", "01", `""`, "[1]", "~", "true", "1TB",
		"99999999999999GiB", "99999999999999999999",
	}},
	{"refund", base + "policies: [{name: p, refund: VALUE}]", []string{
		"404", "5xx", "1xx", "100", "599", "[5xx, 404]", `"404"`, "99", "600", "0xx", "6xx", "5XX", "5x", "xxx",
		"404.5", "[]", "[[404]]", "~", "true", "-404",
	}},
	{"retries", base + "outbound: {a: {limits: 1/1s, retries: VALUE}}", []string{
		"0", "3", "10", "-1", "1.5", `"3"`, "three", "[3]", "{}", "~", "true", "0x4", "010", "1_0", "11",
	}},
	{"shadow", "tiers: [{name: a, identity: ip, limits: 1/1s, shadow: VALUE}]", []string{
		"true", "false", "yes", "no", "on", "off", `"true"`, "1", "0", "[true]", "~", "True",
	}},
	{"mode", base + "failure: {mode: VALUE}",
		[]string{"local", "allow", "deny", "error", `"deny"`, "Deny", "open", `""`, "[deny]", "~", "true", "1"}},
	{"scope", "tiers: [{name: a, identity: ip, limits: 1/1s, scope: VALUE}]", []string{"global", "route", "none", "api", "pdb-fetch", `"a b"`, "a:b", "[route]", "~", "true"}},
	{"format", base + "headers: {format: VALUE}",
		[]string{"x", "draft-11", "none", "[x, draft-11]", "draft-10", "[]", "[x, y]", "~", "true"}},
	{"reset", base + "headers: {reset: VALUE}", []string{"epoch", "delta", "now", "~", "[epoch]", "0"}},
	{"cost", base + "policies: [{name: p, cost: VALUE}]", []string{
		"0", "10", "{header: X-Cost, max: 5}", "{header: X-Cost, default: 0, min: 0, max: 5}", "-1", "1.5", "ten",
		"[1]", "~", "true", "{headr: X}", "{header: X-Cost, max: ten}",
	}},
	{"path", base + "policies: [{name: p, match: {path: VALUE}, limits: 1/1s}]", []string{"/", "[/a, /b]", `"/users/{id}"`, `""`, "[]", "{}", "~", "[~]", "[[/a]]"}},
	{"match", base + "policies: [{name: p, match: VALUE, limits: 1/1s}]", []string{
		"{path: /}", "{header: {X-A: 1}}", "{header: {X-A: [a, b]}, claim: {plan: pro}}", "{network: private}", "{}",
		"[]", "/", "~", "{paths: /}", "{header: X-A}", "{header: {X-A: {}}}",
	}},
	{"name", "tiers: [{name: VALUE, identity: ip, limits: 1/1s}]", []string{"a", "42", "1.5", "true", "a-b_c.d", `"a b"`, `""`, "a:b", "ä", "~", "[a]", "{}"}},
	{"tier", "tiers: [VALUE]", []string{
		"{name: a, identity: ip, limits: 1/1s}", "{name: a, identity: ip, budget: 1/1s}",
		"{identity: ip, limits: 1/1s}", "{name: a, limits: 1/1s}", "a", "[]", "~", "{}",
	}},
	{"identities", base + "identities: VALUE", []string{
		"{a: {claim: x}}", "{a: {header: X-A, plain: true}}", "{}", "{a: {}}", "{a: ~}", "{a: x}", "[a]",
		"{a: {claim: x, clame: y}}", `{"a b": {claim: x}}`, `{"": {claim: x}}`,
	}},
	{"gateway", base + "gateway: VALUE", []string{
		"{routes: [{upstream: http://a}]}", "{routes: [{host: [a, b], path: /a/**, upstream: http://a, strip_prefix: true, response_timeout: 1m}], max_body: 1MB}", "{body_timeout: 5s}", "{send_timeout: 1m, min_body_rate: 1KiB, unusual_paths: pass}", "{unusual_paths: allow}", "{min_body_rate: 0}",
		"{}", "~", "[]", "{routes: ~}", "{routes: {}}", "{routes: [{}]}", "{routes: [~]}",
		"{routes: [{upstream: http://a, hosts: a}]}", "{timeout: 5s}", "{routes: []}",
	}},
	{"request_id", base + "request_id: VALUE",
		[]string{"{header: X-Id}", "{header: X-Id, life: 1h}", "{}", "{life: 1h}", "X-Id", "~"}},
	{"a policy's request_id", base + "policies: [{name: p, request_id: VALUE}]",
		[]string{"{header: X-Id}", "{derive: 2s}",
			"{header: X-Id, life: 1h, derive: 2s}", "{}", "{life: 1h}", "{derive: true}", "{derive: ~}"}},
	{"tiers to limits", base + "policies: [{name: p, limits: VALUE}]", []string{
		"{all: 1/1s}", "{all: [1/1s, 2/1m], default: unlimited}", "{all: 1}", "{all: ~}", "{all: {}}", "{other: 1/1s}",
		"{limit: 60/1m, claim: rpm, max: 100}", "[2/1s, {limit: 60/1m, claim: rpm, max: 100}]",
		"{all: {limit: 60/1m, claim: rpm, max: 100}}", "{all: [2/1s, {limit: 60/1m, claim: rpm, max: 100}]}",
		"{all: {limit: 60/1m, claim: rpm}}", "{limit: 60/1m, claim: rpm}",
	}},
}
