package policy_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// heldTo returns the texts of the limits that a request is held to.
func heldTo(v *policy.Verdict) string {
	var texts []string
	for i := range v.Results {
		for _, l := range v.Results[i].Limits {
			texts = append(texts, l.String())
		}
	}
	return strings.Join(texts, ", ")
}

// TestMistakenNumbers: what is wrong with limits by claims is said with what would be right.
func TestMistakenNumbers(t *testing.T) {
	for _, c := range []struct {
		limit policy.Limit
		want  string
	}{
		{policy.Limit{Limit: stint.PerMinute(60), Max: 5}, "tiers[0].limits.claim: is missing"},
		{policy.Limit{Limit: stint.PerMinute(60), Claim: "rpm", Max: 1<<53 + 1},
			"tiers[0].limits.max: 9007199254740993; want"},
		{policy.Limit{Limit: stint.TokenBucket(25, 0, time.Second), Claim: "rpm", Max: 59},
			"tiers[0].limits.limit: 0/1s burst 25 bucket: a burst is a multiple"},
		{policy.Limit{Limit: stint.TokenBucket(1e12, 1, time.Millisecond), Claim: "rpm", Max: 1 << 53},
			"tiers[0].limits.max: with 9007199254740992 units the burst has more than 9007199254740992"},
		{policy.Limit{Limit: stint.PerDay(10).BurstTimes(2), Claim: "rpm", Max: 1 << 50}, "cannot be counted exactly"},
	} {
		_, err := policy.New(policy.Spec{Tiers: []policy.Tier{
			{Name: "all", Identity: []string{"everyone"}, Limits: []policy.Limit{c.limit}}}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %s", c.limit, err, c.want)
		}
	}
}

// TestNumbersFromClaims: a claim gives the number of a limit, within bounds. A mistake in a claim
// is logged and explained.
func TestNumbersFromClaims(t *testing.T) {
	const rules = `
claims: {rpm: X-Rpm}
client_ip: {trusted_proxies: 10.0.0.0/8}
tiers: [{name: all, identity: user, limits: [2/1s, {limit: 60/1m burst 2x, claim: rpm, max: 1000}],
  budget: {limit: 10/1s burst 25 bucket, claim: tokens, max: 100}},
  {name: rest, identity: everyone, limits: {limit: 60/1m burst 10 bucket, claim: rpm, max: 100}}]
policies:
  - {name: export, match: {path: /export}, limits: {all: {limit: 1/30s concurrency, claim: exports, max: 5}}}`
	for _, c := range []struct {
		path   string
		claims claims
		limits string // without the first
		tokens string
		odd    string // what the log says
	}{
		{"/", claims{}, "60/1m burst 2x", "10/1s burst 25 bucket", ""},
		{"/", claims{"rpm": "500"}, "500/1m burst 2x", "10/1s burst 25 bucket", ""},
		{"/", claims{"rpm": "60", "tokens": "4"}, "60/1m burst 2x", "4/1s burst 10 bucket", ""},
		{"/", claims{"rpm": "1000", "tokens": "100"}, "1000/1m burst 2x", "100/1s burst 250 bucket", ""},
		{"/", claims{"rpm": "0"}, "0/1m", "10/1s burst 25 bucket", ""},
		{"/", claims{"rpm": "007"}, "7/1m burst 2x", "10/1s burst 25 bucket", ""},
		{"/", claims{"rpm": "1001"}, "1000/1m burst 2x", "10/1s burst 25 bucket", `claim=rpm value=1001 max=1000 applied="1000/1m burst 2x"`},
		{"/", claims{"rpm": strings.Repeat("9", 30)}, "1000/1m burst 2x", "10/1s burst 25 bucket", `applied="1000/1m burst 2x"`},
		{"/", claims{"rpm": "-1"}, "60/1m burst 2x", "10/1s burst 25 bucket", `value=-1`},
		{"/", claims{"rpm": "many"}, "60/1m burst 2x", "10/1s burst 25 bucket", `applied="60/1m burst 2x"`},
		{"/", claims{"rpm": "1e3"}, "60/1m burst 2x", "10/1s burst 25 bucket", `value=1e3`},
		{"/", claims{"rpm": " 5"}, "60/1m burst 2x", "10/1s burst 25 bucket", `value=" 5"`},
		{"/export", claims{"exports": "3"}, "60/1m burst 2x", "10/1s burst 25 bucket, 3/30s concurrency", ""},
	} {
		w := newWorld(t, rules)
		c.claims["user"] = "42"
		in := getAs(c.path, c.claims)
		var v policy.Verdict
		if err := w.Prepare(&in, &v, new(stint.Request)); err != nil {
			t.Fatal(err)
		}
		if got, want := heldTo(&v), "2/1s, "+c.limits+", cost: "+c.tokens; got != want {
			t.Errorf("%v: got %s, want %s", c.claims, got, want)
		}
		if logged := w.log.String(); (logged != "") != (c.odd != "") || !strings.Contains(logged, c.odd) {
			t.Errorf("%v: logged %q, want %q", c.claims, logged, c.odd)
		}
	}
	w := newWorld(t, rules)
	for _, c := range []struct{ peer, value, limit, why string }{
		{"10.0.0.1", "12", "12/1m burst 2 bucket", "the claim rpm is 12"}, // in proportion, and 1 or more
		{"10.0.0.1", "5", "5/1m burst 1 bucket", "the claim rpm is 5"},
		{"10.0.0.1", "1", "1/1m burst 1x bucket", "the claim rpm is 1"},
		{"10.0.0.1", "", "60/1m burst 10 bucket", "the request has no claim rpm"},
		{"10.0.0.1", "2000", "100/1m burst 16 bucket", "the claim rpm is 2000, which is above its max"},
		{"10.0.0.1", "many", "60/1m burst 10 bucket", "the claim rpm is many, which is not a whole number"},
		{"10.0.0.1", "5 6", "60/1m burst 10 bucket", "the request has no claim rpm (X-Rpm is accepted only in a single line)"},
		{"192.0.2.1", "50", "60/1m burst 10 bucket", "the request has no claim rpm (X-Rpm is accepted only from trusted proxies)"},
	} {
		in := getWith("/", http.Header{"X-Rpm": strings.Fields(c.value)})
		in.Peer = netip.MustParseAddr(c.peer)
		if c.value == "" {
			in.Header = http.Header{}
		}
		e := w.Set().Explain(&in, nil)
		if got := heldTo(w.judge(in)); got != c.limit || len(e.Numbers) != 1 || e.Numbers[0].Limit.String() != c.limit ||
			e.Numbers[0].Why != c.why || e.Numbers[0].Rule != "rest" {
			t.Errorf("%+v: held to %s, explained %+v", c, got, e.Numbers)
		}
	}
}

// A limit by a claim is explained once, also if the path has readings with different subjects.
func TestNumbersAreExplainedOnce(t *testing.T) {
	w := newWorld(t, `
claims: {rpm: X-Rpm}
client_ip: {trusted_proxies: 10.0.0.0/8}
tiers: [{name: all, identity: everyone, limits: unlimited}]
policies: [{name: items, match: {path: "/items/{id}"}, per: id, limits: {limit: 60/1m, claim: rpm, max: 100}}]`)
	in := getAs("/items/a;b", claims{"rpm": "5"})
	if e := w.Set().Explain(&in, nil); len(e.Results) != 2 || len(e.Numbers) != 1 {
		t.Errorf("%d results, explained %+v, want two and items once", len(e.Results), e.Numbers)
	}
}
