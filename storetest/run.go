package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// Run tests a store against its contract at the given level. Every test opens a harness of its own;
// open may return the same store again.
func Run(t *testing.T, level Level, open func(t *testing.T) Harness) {
	for _, group := range [][]check{
		basics, scenarioTests, bursts, states, reservations, settlements, holding, requestIDs, bans, changes, subjects,
		extremes, concurrent, golden, corners, leases, givingBack, forcing, inspecting,
	} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				if c.exact && level != Exact {
					t.Skip("of exact stores only")
				}
				h := open(t)
				if c.clock && h.Clock == nil {
					t.Skip("needs a clock that can be moved")
				}
				c.test(&tester{T: t, Harness: h, level: level})
			})
		}
	}
}

// check is one test. Unless it is marked as exact, it holds for every store.
type check struct {
	name  string
	exact bool // only stores that are exact can pass
	clock bool // the clock has to be moved, or to stand still
	test  func(k *tester)
}

// tester is what a check works with.
type tester struct {
	*testing.T
	Harness
	level Level
}

// subject returns a subject that nobody has used.
func (k *tester) subject() string { return fmt.Sprintf("test:%016x", rand.Uint64()) }

// pass lets time pass: on the store's clock if it can be moved, else by sleeping.
func (k *tester) pass(d time.Duration) {
	if k.Clock != nil {
		k.Clock.Advance(d)
	} else {
		time.Sleep(d)
	}
}

func (k *tester) decide(r stint.Request) stint.Decision {
	k.Helper()
	if err := r.Validate(); err != nil {
		k.Fatalf("the test's own request: %v", err)
	}
	d, err := k.Store.Take(k.Context(), r)
	if err != nil {
		k.Fatalf("take: %v", err)
	}
	return d
}

func (k *tester) request(subject string, cost int64, limits ...stint.Limit) stint.Request {
	return stint.Request{Claim: stint.Claim{Subject: subject, Limits: limits, Cost: cost}, Bans: &stint.BanPolicy{}}
}

func (k *tester) take(subject string, cost int64, limits ...stint.Limit) stint.Decision {
	k.Helper()
	return k.decide(k.request(subject, cost, limits...))
}

func (k *tester) peek(subject string, cost int64, limits ...stint.Limit) stint.Decision {
	k.Helper()
	r := k.request(subject, cost, limits...)
	r.Mode = stint.ModePeek
	return k.decide(r)
}

func (k *tester) reserve(subject string, cost int64, maxWait time.Duration, limits ...stint.Limit) stint.Decision {
	k.Helper()
	r := k.request(subject, cost, limits...)
	r.Mode, r.MaxWait = stint.ModeReserve, maxWait
	return k.decide(r)
}

// mustTake takes and fails if it is denied.
func (k *tester) mustTake(subject string, cost int64, limits ...stint.Limit) stint.Decision {
	k.Helper()
	d := k.take(subject, cost, limits...)
	k.wantAllowed(d, true)
	return d
}

func (k *tester) settle(d stint.Decision, cost int64) bool {
	k.Helper()
	return k.amend(d, stint.Amendment{Kind: stint.AmendSettle, Cost: cost})
}

func (k *tester) amend(d stint.Decision, a stint.Amendment) bool {
	k.Helper()
	applied, err := k.Store.Amend(k.Context(), d.Charge, a)
	if err != nil {
		k.Fatalf("amend: %v", err)
	}
	return applied
}

func (k *tester) command(c stint.Command) {
	k.Helper()
	if err := k.Store.Command(k.Context(), c); err != nil {
		k.Fatalf("command: %v", err)
	}
}

func (k *tester) wantAllowed(d stint.Decision, want bool) {
	k.Helper()
	if d.Allowed != want {
		k.Fatalf("allowed is %v, want %v: %s", d.Allowed, want, answer(d))
	}
}

func (k *tester) wantRetry(d stint.Decision, want time.Duration) {
	k.Helper()
	if d.RetryAfter != want {
		k.Fatalf("retry-after is %v, want %v: %s", d.RetryAfter, want, answer(d))
	}
}

// wantUsed checks what each limit has used.
func (k *tester) wantUsed(d stint.Decision, want ...int64) {
	k.Helper()
	var got []int64
	for _, s := range d.States() {
		got = append(got, s.Used)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		k.Fatalf("used is %v, want %v", got, want)
	}
}

func (k *tester) wantApplied(got, want bool) {
	k.Helper()
	if got != want {
		k.Fatalf("applied is %v, want %v", got, want)
	}
}

// eventually retries what a store may do a moment later.
func (k *tester) eventually(what string, ok func() bool) {
	k.Helper()
	for deadline := time.Now().Add(2 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			k.Fatalf("not in time: %s", what)
		}
	}
}

// cancelled is a context that has ended.
func cancelled(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	cancel()
	return ctx
}
