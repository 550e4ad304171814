package observe_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// TestSettlements: lost settlements are counted by kind and reason, and holds when they are settled
// or found expired.
func TestSettlements(t *testing.T) {
	m := newMonitor(t)
	query := &policy.Verdict{Tier: "anyone", Route: "query"}
	done := stint.Amended{Changed: true, Charged: 5}
	for _, e := range []struct {
		n int
		policy.Settlement
	}{
		{3, policy.Settlement{Verdict: query, Cost: 9}}, {2, policy.Settlement{Verdict: query, Refund: true}},
		{1, policy.Settlement{Verdict: query, Cost: 9, Err: timeout()}}, {4, policy.Settlement{Verdict: query, Refund: true, Err: timeout()}},
		{1, policy.Settlement{Verdict: query, Cost: 9, Err: context.DeadlineExceeded}},
		{1, policy.Settlement{Verdict: query, Cost: 35, Amended: done}}, {1, policy.Settlement{Cost: 12, Amended: done}},
		{1, policy.Settlement{Cost: 5, Amended: done, Hold: time.Minute, Delay: 1500 * time.Millisecond}},
		{1, policy.Settlement{Cost: 5, Amended: done, Hold: time.Minute, Delay: time.Second}},
		{1, policy.Settlement{Cost: 5, Amended: done, Hold: time.Minute, Estimated: true}},
		{1, policy.Settlement{Hold: time.Minute, Expired: true}},
	} {
		for range e.n {
			m.Observe(t.Context(), &e.Settlement)
		}
	}
	text := wantScrape(t, m,
		`settlement_units_lost_total{policy="query",tier="anyone"} 30`, `settlement_units_lost_total{policy="",tier=""} 7`,
		`settlements_lost_total{op="settle",policy="query",reason="not-applied",tier="anyone"} 3`,
		`settlements_lost_total{op="refund",policy="query",reason="not-applied",tier="anyone"} 2`,
		`settlements_lost_total{op="settle",policy="query",reason="timeout",tier="anyone"} 1`,
		`settlements_lost_total{op="refund",policy="query",reason="timeout",tier="anyone"} 4`,
		`settlements_lost_total{op="settle",policy="query",reason="canceled",tier="anyone"} 1`,
		`holds_settled_total{policy="",tier=""} 3`, `holds_expired_total{policy="",tier=""} 1`,
		`usage_estimated_total{policy="",tier=""} 1`, `settlement_delay_seconds_total{policy="",tier=""} 2.5`,
	)
	if n, u := strings.Count(text, "\nstint_settlements_lost_total{"), strings.Count(text, "\nstint_settlement_units_lost_total{"); n != 5 || u != 2 {
		t.Errorf("%d and %d lines, want 5 and 2:\n%s", n, u, text)
	}
}
