package api_test

import (
	"fmt"
	"slices"
	"testing"
)

// together returns what is used of the limits of a decision, with their subjects.
func together(d decision) (all []string) {
	for _, l := range d.Limits {
		all = append(all, fmt.Sprintf("%s %s %d", l.Subject, l.Policy, l.Used))
	}
	return all
}

// TestTogether: several subjects are charged all or none, and a charge amends them all.
func TestTogether(t *testing.T) {
	s := serve(t, memory(t), rules+"  - {name: account, match: {path: /account}, identity: ip, limits: 1/1m}\n")
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
	first := login("/v1/take", 200, "1", "ann")
	want(first, "ip:1 login 1", "account:ann account 1")
	denied := login("/v1/take", 429, "1", "ann")
	want(denied, "ip:1 login 1", "account:ann account 1") // neither is charged
	if denied.Policy != "account" || denied.Charge != "" {
		t.Errorf("denied by %s: %+v", denied.Policy, denied.Limits)
	}
	if !s.post("/v1/refund", `{"charge":"`+first.Charge+`"}`).changed() {
		t.Error("nothing is refunded")
	}
	want(login("/v1/peek", 200, "1", "ann"), "ip:1 login 0", "account:ann account 0")
}
