package faults

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/storebounds"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/resilience"
)

// patient is a stack that answers by the store alone, however long that takes.
func patient(r *report, url string) *stack {
	return newStack(
		r,
		calm(url),
		resilience.Config{Failure: stint.FailurePolicy{Mode: stint.FailError, Budget: patience}},
	)
}

func TestF39(t *testing.T) {
	fault(
		t,
		"F39",
		"a request id repeated while its first request fails and is refunded",
		"at most 1 + 8 requests per charge that is kept",
		func(r *report) {
			const limit, repeats = 3, 8
			server := redistest.Start(t)
			conf, err := config.Parse("stint.yaml", []byte(`
tiers: [{name: anyone, identity: ip, limits: 3/1h}]
policies: [{name: things, refund: [404, 5xx], request_id: {header: Idempotency-Key}}]
`))
			if err != nil {
				t.Fatal(err)
			}
			guard, err := policy.NewGuard(patient(r, server.URL()), conf.Set,
				policy.GuardConfig{Logger: new(journal).logger()})
			if err != nil {
				t.Fatal(err)
			}
			// ask decides a request, and returns what ends it; nil if it is denied.
			ask := func(id string) func(policy.Outcome) {
				in := policy.Input{Method: "PUT", Host: "example.com", Path: "/things/1",
					Peer:   netip.MustParseAddr("192.0.2.1"),
					Header: http.Header{"Idempotency-Key": {id}}}
				v := new(policy.Verdict)
				if err := guard.Decide(t.Context(), &in, v); err != nil {
					t.Fatal(err)
				}
				if !v.Decision.Allowed {
					return nil
				}
				if end := guard.Follow(t.Context(), v); end != nil {
					return end
				}
				return func(policy.Outcome) {}
			}
			failed := 0
			var served atomic.Int64
			for round := range 200 {
				id := fmt.Sprint(round)
				fail := ask(id)
				if fail == nil {
					continue
				}
				failed++
				var group sync.WaitGroup
				for range repeats {
					group.Go(func() {
						if end := ask(id); end != nil {
							served.Add(1)
							end(policy.Outcome{Status: http.StatusOK})
						}
					})
				}
				group.Wait()
				fail(policy.Outcome{Status: http.StatusNotFound})
			}
			total := failed + int(served.Load())
			if total > limit*(1+repeats) {
				t.Errorf("%d requests under a limit of %d, want at most %d", total, limit, limit*(1+repeats))
			}
			r.saw("200 rounds under 3/1h: %d requests for %d charges", total, limit)
			wantTTLs(r, server)
		},
	)
}

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
	const requests, callers = 5000, 50
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
	if n := applied.Load(); !ok || n > requests || n+unsure.Load() < requests || used != 0 {
		r.Errorf("%d of %d refunded, %d still charged", applied.Load(), requests, used)
	}
	if again.Load() > 0 {
		r.Errorf("%d refunded twice by the same process", again.Load())
	}
	r.saw("%d of %d refunded in any order, %d stay charged, %d twice", applied.Load(), requests, used, again.Load())
}

// lateSettlements has requests settled last that began first.
func lateSettlements(r *report, one, other *stack) {
	const budget, slowCost, later = 100_000, 50_000, storebounds.MaxSettled + 1
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

// spread calls f with every number below n, by that many goroutines, and returns when all are done.
func spread(goroutines, n int, f func(int)) {
	var group sync.WaitGroup
	for from := range goroutines {
		group.Go(func() {
			for i := from; i < n; i += goroutines {
				f(i)
			}
		})
	}
	group.Wait()
}
