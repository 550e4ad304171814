package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// Run tests a store against its contract. Every test opens its own harness; open may return the
// same store again.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, group := range [][]check{
		basics, scenarioTests, bursts, states, reservations, settlements, holding, requestIDs, bans, changes, subjects,
		extremes, concurrent, golden, corners, leases, givingBack, forcing, lateCharges, inspecting, answers, periods,
		holds,
	} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				h := open(t)
				if c.exact && h.NeverOver {
					t.Skip("for exact stores only")
				}
				if c.clock && h.Clock == nil {
					t.Skip("needs a clock that can be moved")
				}
				k := &tester{T: t, Harness: h}
				if len(c.under) == 0 {
					c.test(k.other())
				}
				for _, l := range c.under {
					c.test(k.other(l))
				}
			})
		}
	}
}

// check is one test. It runs once under each of its limits, or once if it has none.
type check struct {
	name  string
	exact bool // needs an exact store
	clock bool // needs a Clock
	under limits
	test  func(k *tester)
}

type limits = []stint.Limit

func everyStore(name string, under limits, test func(k *tester)) check {
	return check{name: name, under: under, test: test}
}

func exact(name string, under limits, test func(k *tester)) check {
	return check{name: name, exact: true, under: under, test: test}
}

// clocked returns a check for exact stores with a clock that can be moved.
func clocked(name string, under limits, test func(k *tester)) check {
	return check{name: name, exact: true, clock: true, under: under, test: test}
}

// tester has a store, and a subject with limits. Its methods call the store for this subject, under
// these limits.
type tester struct {
	*testing.T
	Harness
	subject string // not used by any other test
	limits  limits
}

func (k *tester) newSubject() string { return fmt.Sprintf("test:%016x", rand.Uint64()) }

// other returns a tester with another subject, under the given limits or, if there are none, under
// the same limits.
func (k *tester) other(limits ...stint.Limit) *tester {
	if len(limits) == 0 {
		limits = k.limits
	}
	return k.as(k.newSubject(), limits...)
}

// under returns a tester with the same subject, under other limits.
func (k *tester) under(limits ...stint.Limit) *tester { return k.as(k.subject, limits...) }

// with returns a tester with the same subject, under additional limits.
func (k *tester) with(more ...stint.Limit) *tester { return k.under(slices.Concat(k.limits, more)...) }

func (k *tester) as(subject string, limits ...stint.Limit) *tester {
	other := *k
	other.subject, other.limits = subject, limits
	return &other
}

func (k *tester) limit() *stint.Limit { return &k.limits[0] }

// pass lets time pass: on the store's clock if it can be moved, else by sleeping.
func (k *tester) pass(d time.Duration) {
	if k.Clock != nil {
		k.Clock.Advance(d)
	} else {
		time.Sleep(d)
	}
}

// after calls pass, and returns k for chaining.
func (k *tester) after(d time.Duration) *tester {
	k.pass(d)
	return k
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

func (k *tester) mustDecide(r stint.Request) stint.Decision {
	k.Helper()
	d := k.decide(r)
	k.wantAllowed(d, true)
	return d
}

func (k *tester) request(cost int64) stint.Request {
	return stint.Request{
		Claims: []stint.Claim{{Subject: k.subject, Limits: k.limits, Cost: cost}},
		Bans:   &stint.BanPolicy{},
	}
}

// The function and returns r with the first claim of each of the other requests added.
func and(r stint.Request, others ...stint.Request) stint.Request {
	for _, o := range others {
		r.Claims = append(r.Claims, o.Claims[0])
	}
	return r
}

func (k *tester) take(cost int64) stint.Decision {
	k.Helper()
	return k.decide(k.request(cost))
}

func (k *tester) look(r stint.Request) stint.Decision {
	k.Helper()
	r.Mode = stint.ModePeek
	return k.decide(r)
}

func (k *tester) peek(cost int64) stint.Decision {
	k.Helper()
	return k.look(k.request(cost))
}

// used returns the usage of the first limit.
func (k *tester) used() int64 {
	k.Helper()
	d := k.peek(1)
	return d.States()[0].Used
}

func (k *tester) reserve(cost int64, maxWait time.Duration) stint.Decision {
	k.Helper()
	r := k.request(cost)
	r.Mode, r.MaxWait = stint.ModeReserve, maxWait
	return k.decide(r)
}

func (k *tester) mustTake(cost int64) stint.Decision {
	k.Helper()
	return k.mustDecide(k.request(cost))
}

func (k *tester) mustDeny(cost int64) stint.Decision {
	k.Helper()
	d := k.take(cost)
	k.wantAllowed(d, false)
	return d
}

func (k *tester) settle(d stint.Decision, cost int64) bool {
	k.Helper()
	return k.amend(d, stint.Amendment{Kind: stint.AmendSettle, Cost: cost})
}

func (k *tester) amend(d stint.Decision, a stint.Amendment) bool {
	k.Helper()
	return k.amended(d, a).Changed
}

func (k *tester) amended(d stint.Decision, a stint.Amendment) stint.Amended {
	k.Helper()
	done, err := k.Store.Amend(k.Context(), d.Charge, a)
	if err != nil {
		k.Fatalf("amend: %v", err)
	}
	return done
}

// wantSettled settles the charge of d with the given amendment. It fails unless the settlement
// applies and the cost that remains charged equals want.
func (k *tester) wantSettled(d stint.Decision, a stint.Amendment, want int64) {
	k.Helper()
	if got := k.amended(d, a); !got.Changed || got.Charged != want {
		k.Errorf("%s: settled to %d: %+v, want %d charged", k.limit(), a.Cost, got, want)
	}
}

func (k *tester) command(c stint.Command) {
	k.Helper()
	if err := k.Store.Command(k.Context(), c); err != nil {
		k.Fatalf("command: %v", err)
	}
}

func (k *tester) ban(d time.Duration) {
	k.Helper()
	k.command(stint.Command{Kind: stint.CommandBan, Subject: k.subject, For: d})
}

func (k *tester) unban() {
	k.Helper()
	k.command(stint.Command{Kind: stint.CommandUnban, Subject: k.subject})
}

func (k *tester) reset() {
	k.Helper()
	k.command(stint.Command{Kind: stint.CommandReset, Subject: k.subject, Limits: k.limits})
}

// wantSame fails unless got equals want. The parameter what names the compared value in the failure
// message, which also shows d.
func wantSame[T comparable](k *tester, d stint.Decision, what string, got, want T) {
	k.Helper()
	if got != want {
		k.Fatalf("%s: %s is %v, want %v: %s", k.limits, what, got, want, answer(d))
	}
}

func (k *tester) wantAllowed(d stint.Decision, want bool) {
	k.Helper()
	wantSame(k, d, "allowed", d.Allowed, want)
}

func (k *tester) wantBanned(d stint.Decision, want bool) {
	k.Helper()
	wantSame(k, d, "banned", d.Banned, want)
}

func (k *tester) wantRepeat(d stint.Decision, want bool) {
	k.Helper()
	wantSame(k, d, "repeat", d.Repeat, want)
}

func (k *tester) wantKey(d stint.Decision, want string) {
	k.Helper()
	wantSame(k, d, "key", d.Key(), want)
}

func (k *tester) wantRetry(d stint.Decision, want time.Duration) {
	k.Helper()
	wantSame(k, d, "retry-after", d.RetryAfter, want)
}

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

func (k *tester) wantInvalid(what string, err error) {
	k.Helper()
	if _, ok := errors.AsType[*stint.InvalidError](err); !ok {
		k.Errorf("%s: got %v, want an InvalidError", what, err)
	}
}

func (k *tester) wantApplied(got, want bool) {
	k.Helper()
	if got != want {
		k.Fatalf("applied is %v, want %v", got, want)
	}
}

func canceled(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	cancel()
	return ctx
}
