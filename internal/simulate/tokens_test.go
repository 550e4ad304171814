package simulate_test

import (
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/policy"
)

const tokenRules = `
client_ip: {trusted_proxies: loopback}
claims: {user: X-User}
tiers:
  - {name: members, match: {claim: {user: "*"}}, identity: user, limits: 1000/1m}
  - {name: others, identity: ip, limits: 0/1m}
policies:
  - name: llm
    match: {path: "/v1/**"}
    budget:
      members: ["tokens: 500/1m", "output_tokens: 400/1m", "price: 10000/day"]
    usage:
      preset: openai
      default_output: 40
      prices:
        gpt-4o: {input: 2500000, output: 10000000, cached: 1250000}
        default: {input: 1000000, output: 2000000}
`

// tokenLog has three callers. What each line uses is computed by hand below.
const tokenLog = `
{"time":"2026-03-02T10:00:00Z","user":"ann","path":"/v1/chat","status":200,"llm":{"model":"gpt-4o","in":100,"out":50,"hit":40}}
{"time":"2026-03-02T10:00:00Z","user":"bob","path":"/v1/chat","status":200,"llm":{"model":"small","in":"10","out":5.0}}
{"time":"2026-03-02T10:00:20Z","user":"ann","path":"/v1/chat","status":200,"llm":{"model":"gpt-4o","in":200,"out":100}}
{"time":"2026-03-02T10:00:30Z","user":"bob","path":"/v1/chat","status":200,"llm":{"model":"small","in":null}}
{"time":"2026-03-02T10:01:00Z","user":"cat","path":"/v1/embeddings","status":200,"llm":{"model":"gpt-4o","in":1,"hit":1}}
{"time":"2026-03-02T10:02:00Z","user":"bob","path":"/v1/chat","status":500,"llm":{"model":"small"}}
{"time":"2026-03-02T10:02:00Z","user":"bob","path":"/v1/chat","status":200,"llm":{"model":"small","in":-5,"out":5}}
{"time":"2026-03-02T10:02:00Z","user":"bob","path":"/v1/chat","status":200,"llm":{"model":"small","in":5,"out":"many"}}
{"time":"2026-03-02T10:05:00Z","user":"ann","path":"/v1/chat","status":200,"llm":{"model":"gpt-4o","in":300,"out":250}}
{"time":"2026-03-02T10:05:10Z","user":"ann","path":"/v1/chat","status":200,"llm":{"model":"gpt-4o","in":1,"out":1}}
`

const tokenMapping = "input_tokens=llm.in,output_tokens=llm.out,cached_tokens=llm.hit,model=llm.model"

// replayTokens replays a log of JSON lines.
func replayTokens(t *testing.T, log, mapping string, o simulate.Options) *simulate.Result {
	t.Helper()
	m := testkit.Must(accesslog.ParseMapping(mapping))(t)
	format := testkit.Must(accesslog.NewFormat("json", m))(t)
	return replayText(t, log, format, o)
}

// TestTokens: budgets count the tokens and prices that the log has, each quantity by itself.
//
// Tokens in the busiest minute: ann 300+250+1+1 = 552, bob 15 and the default of 40, cat 1. Output:
// ann 250+1, bob 5+40, cat none. Prices, in millionths of a dollar: ann 60*2.5 + 40*1.25 + 50*10 =
// 700, 200*2.5 + 100*10 = 1500, 300*2.5 + 250*10 = 3250 and 12.5, which is 13; bob 10 + 2*5 = 20
// and 2*40 = 80; cat 1.25, which is 2. The error says nothing, so it used nothing.
func TestTokens(t *testing.T) {
	o := simulate.Options{Set: parse(t, tokenRules), Recommend: []float64{0.5, 1}}
	r := replayTokens(t, tokenLog, tokenMapping, o)
	want := []string{
		"llm tokens: 55/1m, tokens: 552/1m of 3 subjects",
		"llm output_tokens: 45/1m, output_tokens: 251/1m of 2 subjects",
		"llm price: 100/day, price: 5463/day of 3 subjects",
	}
	var got []string
	for _, one := range r.Recommendations {
		if one.Policy != "" {
			got = append(got, one.Policy+" "+one.Choices[0].Exact.String()+", "+one.Choices[1].Exact.String()+
				" of "+words(one.Subjects)+" subjects")
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
	// The last request comes when 550 of 500 are used. All others fit.
	wantCount(t, "all", r.Outcome.Total, simulate.Count{Requests: 8, Allowed: 7, Denied: 1})
	var used []string
	for _, l := range r.Outcome.Limits {
		if l.Policy != "" {
			used = append(used, words(l.Limit, l.Busiest[0].Subject, l.Busiest[0].Used))
		}
	}
	// Estimates are at most half of a budget: 450 after the second request, 550 when the last one
	// comes, which is denied.
	if s := strings.Join(used, ", "); s != "tokens: 500/1m user:ann 550, output_tokens: 400/1m user:ann 250, "+
		"price: 10000/day user:ann 5450" {
		t.Errorf("used: %s", s)
	}
	if len(r.Notes) != 3 || !strings.HasPrefix(r.Notes[2], "1 of 8 requests whose tokens are counted have no count") ||
		!strings.Contains(r.Notes[2], "standard input:5)") {
		t.Errorf("notes: %q", r.Notes)
	}
	if r.Log.Malformed != 2 || r.Log.Examples[0].Line != 8 ||
		r.Log.Examples[0].Reason != "input_tokens at llm.in is not a number of 0 or more" ||
		r.Log.Examples[1].Reason != "output_tokens at llm.out is not a number of 0 or more" {
		t.Errorf("malformed: %+v", r.Log.Examples)
	}
}

// TestTokensDefaultKeys: counts under common names need no mapping.
func TestTokensDefaultKeys(t *testing.T) {
	const rest = `"time":"2026-03-02T10:00:00Z","user":"ann","path":"/v1/chat","status":200`
	for _, line := range []string{
		`{"input_tokens":3,"output_tokens":4,"cached_tokens":1,"model":"gpt-4o",` + rest + `}`,
		`{"prompt_tokens":3,"completion_tokens":4,"cached_tokens":1,"model":"gpt-4o",` + rest + `}`,
		`{"usage":{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":1}},` +
			`"model":"gpt-4o",` + rest + `}`,
		`{"usage":{"input_tokens":3,"output_tokens":4,"input_tokens_details":{"cached_tokens":1}},` +
			`"model":"gpt-4o",` + rest + `}`,
		`{"gen_ai.usage.input_tokens":3,"gen_ai.usage.output_tokens":4,"cached_tokens":1,` +
			`"gen_ai.request.model":"gpt-4o",` + rest + `}`,
	} {
		r := replayTokens(t, line, "", simulate.Options{Set: parse(t, tokenRules), Recommend: []float64{1}})
		price := r.Recommendations[len(r.Recommendations)-1].Choices
		// 2*2.5 + 1.25 + 4*10 = 46.25
		if len(price) != 1 || price[0].Exact.String() != "price: 47/day" {
			t.Errorf("%s: %+v, %q", line, price, r.Notes)
		}
	}
}

// TestTokensBound: if the log has the bounds of requests, they are estimated by these, as in a
// server. Each request uses 15 tokens. Under 100 a minute, the seventh does not fit. With an
// estimate of 10 tokens and the bound of 40, the fifth does not fit either. One without a bound is
// estimated at the default of 30.
func TestTokensBound(t *testing.T) {
	set := parse(t, `
tiers: [{name: all, identity: ip, limits: unlimited}]
policies: [{name: llm, budget: "tokens: 100/1m", usage: {preset: openai, default_output: 30}}]
`)
	line := func(more string) string {
		return `{"time":"2026-03-02T10:00:00Z","client":"192.0.2.1","path":"/v1/chat","status":200,` +
			`"input_tokens":10,"output_tokens":5` + more + "}\n"
	}
	for _, test := range []struct {
		log, mapping string
		allowed      string // of each request
	}{
		{strings.Repeat(line(`,"max":40`), 7), "", "yyyyyyn"},
		{strings.Repeat(line(`,"max":40`), 7), "max_output=max", "yyyynnn"},
		{strings.Repeat(line(`,"max":40`), 5) + line("") + line(`,"max":"0"`), "max_output=max", "yyyynyn"},
	} {
		got := ""
		each := func(_ *accesslog.Record, v *policy.Verdict) {
			got += map[bool]string{true: "y", false: "n"}[v.Decision.Allowed]
		}
		replayTokens(t, test.log, test.mapping, simulate.Options{Set: set, Each: each})
		if got != test.allowed {
			t.Errorf("%q: got %s, want %s", test.mapping, got, test.allowed)
		}
	}
}

// TestTokensUnpriced: requests for models without a price are noted, and nothing is recommended for
// them. A log with counts that no policy needs is noted.
func TestTokensUnpriced(t *testing.T) {
	rules := strings.Replace(tokenRules, "        default: {input: 1000000, output: 2000000}\n", "", 1)
	r := replayTokens(t, tokenLog, tokenMapping, simulate.Options{Set: parse(t, rules), Recommend: []float64{1}})
	notes := strings.Join(r.Notes, "\n")
	if !strings.Contains(notes, `3 requests used a model that has no price (the first: "small", `) ||
		!strings.Contains(notes, "standard input:3)") {
		t.Errorf("notes: %s", notes)
	}
	if last := r.Recommendations[len(r.Recommendations)-1]; last.Subjects != 2 || r.Outcome.Subjects.Hit != 2 {
		t.Errorf("got %+v; want bob denied, and ann and cat measured", last)
	}
	r = replayTokens(t, tokenLog, tokenMapping, simulate.Options{
		Set: parse(t, "tiers: [{name: all, identity: ip, limits: 1/1m}]")})
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "The log has token counts for 6 requests") {
		t.Errorf("notes: %s", notes)
	}
}
