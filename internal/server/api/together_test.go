package api_test

import (
	"fmt"
	"slices"
	"testing"
)

// plans are rules with numbers from claims.
const plans = `
tiers:
  - {name: plan, match: {claim: {plan: "*"}}, identity: user, limits: [{limit: 2/1m, claim: rpm, max: 5}, 100/1h]}
  - {name: rest, identity: ip, limits: 1/1m}
policies:
  - {name: login, match: {path: /login}, identity: ip, limits: 3/1m}
  - {name: account, match: {path: /account}, identity: ip, limits: 2/1m}
  - {name: tokens, match: {path: /tokens}, budget: {limit: 10/1m, claim: tpm, max: 1000}}
`

// together returns what is used of the limits of a decision, with their subjects.
func together(d decision) (all []string) {
	for _, l := range d.Limits {
		all = append(all, fmt.Sprintf("%s %s %d", l.Subject, l.Policy, l.Used))
	}
	return all
}

// TestTogether: several subjects are charged all or none, and a charge amends them all.
func TestTogether(t *testing.T) {
	s := serve(t, memory(t), plans)
	want := func(d decision, what ...string) {
		t.Helper()
		if got := together(d); !slices.Equal(got, what) {
			t.Errorf("got %q, want %q", got, what)
		}
	}
	login := func(path string, status int, address, account string) decision {
		t.Helper()
		return s.post(path, fmt.Sprintf(`{"subject":"ip:%s","policy":"login","and":[{"subject":"account:%s","policy":"account"}]}`,
			address, account)).decision(status)
	}
	want(login("/v1/peek", 200, "1", "ann"), "ip:1 login 0", "account:ann account 0")
	want(login("/v1/take", 200, "1", "ann"), "ip:1 login 1", "account:ann account 1")
	second := login("/v1/take", 200, "1", "ann")
	want(second, "ip:1 login 2", "account:ann account 2")
	denied := login("/v1/take", 429, "1", "ann")
	want(denied, "ip:1 login 2", "account:ann account 2") // neither is charged
	if denied.Policy != "account" || denied.Charge != "" || *denied.Limits[0].RetryAfter != 0 ||
		*denied.Limits[1].RetryAfter == 0 {
		t.Errorf("denied by %s: %+v", denied.Policy, denied.Limits)
	}
	want(login("/v1/take", 200, "1", "bob"), "ip:1 login 3", "account:bob account 1")
	if !s.post("/v1/refund", `{"charge":"`+second.Charge+`"}`).changed() {
		t.Error("nothing is refunded")
	}
	want(login("/v1/peek", 200, "1", "ann"), "ip:1 login 2", "account:ann account 1")

	// One cost for all that count costs, and one true cost.
	both := s.post("/v1/take", `{"subject":"a","policy":"tokens","cost":6,"claims":{"tpm":"100"},"id":"7",
				"and":[{"subject":"b","limits":["50/1m"]},{"subject":"c","policy":"login"},
				{"subject":"a","tier":"plan","claims":{"rpm":"5"}}]}`).decision(200)
	want(both, "a tokens 6", "b limits 6", "c login 1", "a plan 1", "a plan 1")
	if both.Cost != 6 || both.Limits[0].Limit != "cost: 100/1m" || both.Limits[3].Limit != "5/1m" {
		t.Errorf("got %+v", both)
	}
	if !s.post("/v1/settle", `{"charge":"`+both.Charge+`","cost":9}`).changed() {
		t.Error("nothing is settled")
	}
	want(s.post("/v1/peek", `{"subject":"a","policy":"tokens","claims":{"tpm":"100"},
				"and":[{"subject":"b","limits":["50/1m"]},{"subject":"c","policy":"login"}]}`).decision(200),
		"a tokens 9", "b limits 9", "c login 1")

	booked := s.post("/v1/reserve", `{"subject":"d","limits":["1/1m"],"and":[{"subject":"e","limits":["2/1m"]}]}`)
	want(booked.decision(200), "d limits 1", "e limits 1")
}
