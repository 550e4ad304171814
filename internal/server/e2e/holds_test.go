package e2e

import (
	"maps"
	"net/http"
	"testing"

	"github.com/stint-limiter/stint/internal/redistest"
)

// TestHoldsAcrossServers: what one server has taken, another one settles, once, also if it was
// started later and the first is gone. A charge that was changed frees nothing.
func TestHoldsAcrossServers(t *testing.T) {
	const policies = "failure: {budget: 10s}\ntiers: [{name: all, identity: [user, ip], limits: 10/1m, budget: [100/1m, 1000/1d]}]\n"
	shared := sharing(redistest.Start(t).URL())
	one, two := start(t, policies, shared), start(t, policies, shared)
	subject := func(more map[string]any) map[string]any {
		body := map[string]any{"subject": "user:42", "tier": "all"}
		maps.Copy(body, more)
		return body
	}
	take := subject(map[string]any{"cost": 40, "hold_seconds": 300})
	amend := func(charge string, cost any) map[string]any {
		body := map[string]any{"charge": charge}
		if cost != nil {
			body["cost"] = cost
		}
		return body
	}
	used := func(r *rig, want ...int64) {
		t.Helper()
		a := r.call("/v1/peek", subject(nil))
		for i := range want {
			if len(a.Limits) != len(want) || a.Limits[i].Used != want[i] {
				t.Fatalf("used %+v, want %v", a.Limits, want)
			}
		}
	}
	lost := subject(map[string]any{"cost": 5, "hold_seconds": 300, "id": "lost"})
	first, second, third := one.call("/v1/take", take), one.call("/v1/take", take), two.call("/v1/take", lost)
	if !first.Allowed || !second.Allowed || !third.Allowed {
		t.Fatalf("got %+v, %+v, %+v", first, second, third)
	}
	used(two, 3, 85, 85)

	// Taken at one, a heartbeat at the other, settled there, and again at both.
	if a := two.call("/v1/extend", amend(first.Charge, 10)); !a.Changed {
		t.Errorf("extend: %+v", a)
	}
	for i, r := range []*rig{two, one, two} {
		if a := r.call("/v1/settle", amend(first.Charge, 30)); a.Changed != (i == 0) || i == 0 && a.Charged != 30 {
			t.Errorf("settlement %d: %+v", i+1, a)
		}
	}
	used(one, 3, 75, 75)

	// A changed charge is refused by both.
	forged := []byte(second.Charge)
	if forged[30]++; forged[30] > 'z' || forged[30] == '[' || forged[30] == ':' {
		forged[30] = 'A'
	}
	for _, r := range []*rig{one, two} {
		if a := r.call("/v1/refund", amend(string(forged), nil)); a.status != http.StatusBadRequest {
			t.Errorf("forged: %+v", a)
		}
	}
	used(one, 3, 75, 75)

	// A server that has started since settles what is open.
	later := start(t, policies, shared)
	if a := later.call("/v1/settle", amend(second.Charge, 1)); !a.Changed || a.Charged != 1 {
		t.Errorf("after a restart: %+v", a)
	}
	used(two, 3, 36, 36)
	// The answer was lost: only the request is known.
	if a := later.call("/v1/refund", lost); !a.Changed {
		t.Errorf("refund by id: %+v", a)
	}
	used(two, 2, 31, 31)
}
