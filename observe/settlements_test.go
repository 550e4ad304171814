package observe_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
)

// unsettling is a store that does not amend.
type unsettling struct {
	stint.Store
	err error
}

func (s unsettling) Amend(context.Context, stint.Charge, stint.Amendment) (stint.Amended, error) {
	return stint.Amended{}, s.err
}

// TestLostSettlements: what is not corrected after a response is counted by what it was and why.
func TestLostSettlements(t *testing.T) {
	const config = `
tiers: [{name: anyone, identity: ip, limits: 1000/1m, budget: 1000/1m}]
policies: [{name: query, match: {path: /query}, cost: 5, settle: {header: X-Cost}, refund: 5xx}]
`
	m, store := newMonitor(t), newMemory(t)
	for _, test := range []struct {
		err                 error
		settlement, refunds int
	}{
		{nil, 3, 2}, {timeout(), 1, 4}, {context.DeadlineExceeded, 1, 0},
	} {
		g := newGuard(t, unsettling{store, test.err}, config, m)
		end := func(o policy.Outcome) {
			in, v := get("/query"), new(policy.Verdict)
			if err := g.Decide(t.Context(), &in, v); err != nil {
				t.Fatal(err)
			}
			g.Follow(t.Context(), v)(o)
		}
		for range test.settlement {
			end(policy.Outcome{Status: 200, Cost: "9"})
		}
		for range test.refunds {
			end(policy.Outcome{Status: 500})
		}
	}
	cut := newGuard(t, store, strings.Replace(config, "budget: 1000/1m", "budget: 10/1m bucket", 1), m)
	in, v := get("/query"), new(policy.Verdict)
	if err := cut.Decide(t.Context(), &in, v); err != nil {
		t.Fatal(err)
	}
	cut.Follow(t.Context(), v)(policy.Outcome{Status: 200, Cost: "50"})
	m.Observe(t.Context(), &policy.Settlement{Cost: 9, Amended: stint.Amended{Changed: true, Charged: 2}})
	text := scrape(t, m)
	for _, want := range []string{`{policy="query",tier="anyone"} 30`, `{policy="",tier=""} 7`} {
		if !strings.Contains(text, "stint_settlement_units_lost_total"+want+"\n") {
			t.Errorf("there is no line stint_settlement_units_lost_total%s", want)
		}
	}
	for _, want := range []string{
		`{op="settle",policy="query",reason="not-applied",tier="anyone"} 3`,
		`{op="refund",policy="query",reason="not-applied",tier="anyone"} 2`,
		`{op="settle",policy="query",reason="timeout",tier="anyone"} 1`,
		`{op="refund",policy="query",reason="timeout",tier="anyone"} 4`,
		`{op="settle",policy="query",reason="canceled",tier="anyone"} 1`,
	} {
		if !strings.Contains(text, "stint_settlements_lost_total"+want+"\n") {
			t.Errorf("there is no line stint_settlements_lost_total%s", want)
		}
	}
	if n := strings.Count(text, "\nstint_settlements_lost_total{"); n != 5 {
		t.Errorf("%d lines, want 5", n)
	}
}

// TestHolds: holds are counted when they are settled, with how long that took, and when a heartbeat
// finds that one has expired.
func TestHolds(t *testing.T) {
	m := newMonitor(t)
	held := policy.Settlement{Cost: 5, Amended: stint.Amended{Changed: true, Charged: 5}, Hold: time.Minute}
	for _, delay := range []time.Duration{1500 * time.Millisecond, time.Second} {
		held.Delay = delay
		m.Observe(t.Context(), &held)
	}
	held.Estimated, held.Delay = true, 0
	m.Observe(t.Context(), &held)
	m.Observe(t.Context(), &policy.Settlement{Hold: time.Minute, Expired: true})
	text := scrape(t, m)
	for _, want := range []string{"stint_holds_settled_total{policy=\"\",tier=\"\"} 3\n",
		"stint_usage_estimated_total{policy=\"\",tier=\"\"} 1\n",
		"stint_holds_expired_total{policy=\"\",tier=\"\"} 1\n",
		"stint_settlement_delay_seconds_total{policy=\"\",tier=\"\"} 2.5\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no line %s", want)
		}
	}
	if strings.Contains(text, "stint_settlement_units_lost_total{") ||
		strings.Contains(text, "stint_settlements_lost_total{") {
		t.Error("a hold that was settled wholly counts as lost")
	}
}
