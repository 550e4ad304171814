package faults

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
)

func TestF40(t *testing.T) {
	fault(
		t,
		"F40",
		"5,000 refunds at once; a settlement that arrives after 1,000 later ones",
		"a first settlement is never lost; applied twice only if another process repeats it after 1,000 later ones",
		func(r *report) {
			server := redistest.Start(t)
			one, two := patient(r, server.URL()), patient(r, server.URL())
			refundStorm(r, one, two)
			lateSettlements(r, one, two)
			wantTTLs(r, server)
		},
	)
}

// refundStorm has everything that two processes charged refunded at once, in any order.
func refundStorm(r *report, stacks ...*stack) {
	const callers = 50
	requests := pick(5000, 1000)
	limit := stint.PerHour(100_000)
	charges := make([]stint.Charge, requests)
	spread(callers, requests, func(i int) {
		if d, err := stacks[i%len(stacks)].Take(r.Context(), request("storm", limit)); err == nil && d.Allowed {
			charges[i] = d.Charge
		}
	})
	rand.New(rand.NewPCG(1, 2)).Shuffle(requests, func(i, j int) { charges[i], charges[j] = charges[j], charges[i] })
	var applied, again, unsure atomic.Int64
	for _, count := range []*atomic.Int64{&applied, &again} {
		spread(callers, requests, func(i int) {
			refund := func() (stint.Amended, error) {
				return stacks[i%len(stacks)].Amend(r.Context(), charges[i], stint.Amendment{Kind: stint.AmendSettle})
			}
			ok, err := refund()
			if err != nil { // the machine is busy: it may have been applied
				unsure.Add(1)
			}
			for n := 1; err != nil && n < tries; n++ {
				ok, err = refund()
			}
			if err != nil {
				r.Errorf("refund %d: %v", i, err)
			}
			if ok.Changed {
				count.Add(1)
			}
		})
	}
	used, ok := look(stacks[0], "storm", limit)
	if n := applied.Load(); !ok || n > int64(requests) || n+unsure.Load() < int64(requests) || used != 0 {
		r.Errorf("%d of %d refunded, %d still charged", applied.Load(), requests, used)
	}
	if again.Load() > 0 {
		r.Errorf("%d refunded twice by the same process", again.Load())
	}
	r.saw("%d of %d refunded in any order, %d stay charged, %d twice", applied.Load(), requests, used, again.Load())
}

// lateSettlements has requests settled last that began first.
func lateSettlements(r *report, one, other *stack) {
	const budget, slowCost, later = 100_000, 50_000, driver.MaxSettled + 1
	limit := stint.PerHour(budget)
	spent := int64(0)
	settle := func(s *stack, c stint.Charge, cost int64) bool {
		ok, err := s.Amend(r.Context(), c, stint.Amendment{Kind: stint.AmendSettle, Cost: cost})
		if err != nil {
			r.Fatal(err)
		}
		return ok.Changed
	}
	var slow, last stint.Charge
	for spent < budget {
		slow = take(r, one, "late", limit).Charge
		for range later {
			last = take(r, one, "late", limit).Charge
			if !settle(one, last, 2) {
				r.Fatal("a settlement was lost")
			}
			spent += 2
		}
		if !settle(one, slow, slowCost) {
			r.Error("the settlement of what began first was lost")
		}
		spent += slowCost
	}
	d := take(r, one, "late", limit)
	if used := d.Usages()[0].Used; d.Allowed || used != spent {
		r.Errorf("%d used, allowed %v; %d were spent of %d", used, d.Allowed, spent, budget)
	}
	if settle(one, slow, 0) {
		r.Error("settled twice by the same process")
	}
	if settle(other, last, 0) {
		r.Error("settled twice by another process, right after")
	}
	r.saw(
		"settled after %d later ones: %d spent and counted of %d, then denied; not applied twice",
		later,
		spent,
		budget,
	)
}
