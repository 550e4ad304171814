package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/storetest"
)

// denyRig is a deny cache over a memory store, on one clock that is moved by hand, with
// what a network would do in between.
type denyRig struct {
	testing.TB
	clock *storetest.Clock
	store *memorystore.Store // as others see it, past the cache
	cache *resilience.DenyCache
	calls atomic.Int64 // takes that reached the store

	before, after func()                           // around every take of the store
	change        func(*stint.Decision, *error)    // of its answer
	amend         func(changed bool) (bool, error) // its answer to an amendment
}

func newDenyRig(t testing.TB, c resilience.DenyCacheConfig) *denyRig {
	g := &denyRig{TB: t, clock: storetest.NewClock()}
	var err error
	if g.store, err = memorystore.New(memorystore.Config{Now: g.clock.Now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.store.Close() })
	g.cache = resilience.NewDenyCache(g, c)
	follow(g.cache, g.clock)
	return g
}

// follow lets the cache's time pass with the clock. It is a clock that does not step
// back, whatever that of the store does.
func follow(c *resilience.DenyCache, clock *storetest.Clock) {
	var passed atomic.Int64
	clock.OnAdvance(func(d time.Duration) { passed.Add(int64(max(d, 0))) })
	c.SetClock(func() time.Duration { return time.Duration(passed.Load()) })
}

// Take, Amend and Command are those of the store, as the cache reaches it.
func (g *denyRig) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	g.calls.Add(1)
	if g.before != nil {
		g.before()
	}
	d, err := g.store.Take(ctx, r)
	if g.after != nil {
		g.after()
	}
	if g.change != nil {
		g.change(&d, &err)
	}
	return d, err
}

func (g *denyRig) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (bool, error) {
	changed, err := g.store.Amend(ctx, c, a)
	if g.amend != nil {
		return g.amend(changed)
	}
	return changed, err
}

func (g *denyRig) Command(ctx context.Context, c stint.Command) error { return g.store.Command(ctx, c) }

func (g *denyRig) take(r stint.Request) stint.Decision {
	g.Helper()
	d, err := g.cache.Take(context.Background(), r)
	if err != nil {
		g.Fatalf("take: %v", err)
	}
	return d
}

// want takes through the cache and checks the answer and whether the store was asked.
func (g *denyRig) want(r stint.Request, allowed, asked bool) stint.Decision {
	g.Helper()
	calls := g.calls.Load()
	d := g.take(r)
	if got := g.calls.Load() != calls; d.Allowed != allowed || got != asked {
		g.Fatalf("allowed is %v, want %v; the store was asked: %v, want %v", d.Allowed, allowed, got, asked)
	}
	return d
}

const (
	fromStore  = true
	fromMemory = false
)

func ask(subject string, cost int64, limits ...stint.Limit) stint.Request {
	return stint.Request{Claim: stint.Claim{Subject: subject, Limits: limits, Cost: cost}}
}

func TestDenyCacheContract(t *testing.T) {
	storetest.Run(t, storetest.NeverOver, func(t *testing.T) storetest.Harness {
		g := newDenyRig(t, resilience.DenyCacheConfig{})
		return storetest.Harness{Store: g.cache, Clock: g.clock}
	})
}

func TestDenyCacheRepeatsForASecond(t *testing.T) {
	g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 1, stint.PerHour(1))
	g.want(r, true, fromStore)
	g.clock.Advance(time.Minute)
	first := g.want(r, false, fromStore)
	g.clock.Advance(time.Second - time.Microsecond)
	d := g.want(r, false, fromMemory)
	passed := time.Second - time.Microsecond
	if want := first.RetryAfter - passed; d.RetryAfter != want || d.States()[0].RetryAfter != want {
		t.Errorf("retry-after is %v and %v, want %v", d.RetryAfter, d.States()[0].RetryAfter, want)
	}
	if want := first.ResetAfter() - passed; d.ResetAfter() != want {
		t.Errorf("reset-after is %v, want %v", d.ResetAfter(), want)
	}
	if d.Key() != "a" || d.Remaining() != 0 || d.Charge.ID != 0 || d.Limit() != stint.PerHour(1) {
		t.Errorf("key %q, remaining %d, charge %+v, limit %s", d.Key(), d.Remaining(), d.Charge, d.Limit())
	}
	g.clock.Advance(time.Microsecond)
	g.want(r, false, fromStore)
}

func TestDenyCacheEndsWithTheRetryAfter(t *testing.T) {
	g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 1, stint.Per(1, 100*time.Millisecond))
	g.want(r, true, fromStore)
	g.want(r, false, fromStore)
	g.clock.Advance(100*time.Millisecond - time.Microsecond)
	if d := g.want(r, false, fromMemory); d.RetryAfter != time.Microsecond {
		t.Errorf("retry-after is %v, want 1µs", d.RetryAfter)
	}
	g.clock.Advance(time.Microsecond)
	g.want(r, true, fromStore)
}

// However little is left, a denial says to wait.
func TestDenyCacheRetryAfterStaysAboveZero(t *testing.T) {
	g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 1, stint.PerHour(1))
	g.want(r, true, fromStore)
	g.change = func(d *stint.Decision, _ *error) { d.RetryAfter = 1500 * time.Nanosecond }
	g.want(r, false, fromStore)
	g.clock.Advance(1400 * time.Nanosecond)
	if d := g.want(r, false, fromMemory); d.RetryAfter != time.Microsecond {
		t.Errorf("retry-after is %v, want 1µs", d.RetryAfter)
	}
}

// A limit that has room before the others says so.
func TestDenyCacheOneLimitHasRoomFirst(t *testing.T) {
	g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 1, stint.Per(1, 100*time.Millisecond), stint.PerHour(1))
	g.want(r, true, fromStore)
	g.want(r, false, fromStore)
	g.clock.Advance(200 * time.Millisecond)
	d := g.want(r, false, fromMemory)
	if s := d.States(); s[0].RetryAfter != 0 || s[0].ResetAfter != 0 || s[1].RetryAfter != d.RetryAfter {
		t.Errorf("retry-after %v, states %+v", d.RetryAfter, s)
	}
}

func TestDenyCacheNeverStaysNever(t *testing.T) {
	g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 11, stint.PerHour(10), stint.PerDay(20))
	g.want(r, false, fromStore)
	g.clock.Advance(time.Second - 1)
	d := g.want(r, false, fromMemory)
	if s := d.States(); d.RetryAfter != stint.Never || s[0].RetryAfter != stint.Never || s[1].RetryAfter != 0 || s[0].ResetAfter != 0 {
		t.Errorf("retry-after %v, states %+v", d.RetryAfter, s)
	}
	g.clock.Advance(1)
	g.want(r, false, fromStore)
}

// Over a network that takes its time in both directions, no denial is repeated that the store
// would not make, and nobody is told to come before the store would have them.
func TestDenyCacheIsTrueOverASlowNetwork(t *testing.T) {
	for _, l := range []stint.Limit{
		stint.Per(3, 700*time.Millisecond), stint.Per(300, 2*time.Second), stint.TokenBucket(5, 7, 1000003*time.Microsecond),
		{Max: 4, Window: 300 * time.Millisecond, Algorithm: stint.Fixed}, stint.PerSecond(2).WithBurst(3),
	} {
		g, hits := newDenyRig(t, resilience.DenyCacheConfig{}), 0
		travel := func() { g.clock.Advance(time.Duration(rand.IntN(60_000)) * time.Microsecond) }
		g.before, g.after = travel, travel
		r := ask("a", 1+l.Capacity()/3, l)
		look := r
		look.Mode = stint.Peek
		for range 2000 {
			g.clock.Advance(time.Duration(rand.ExpFloat64()*20_000) * time.Microsecond)
			calls := g.calls.Load()
			d := g.take(r)
			if g.calls.Load() != calls {
				continue
			}
			hits++
			truth, err := g.store.Take(t.Context(), look)
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed || truth.Allowed || d.RetryAfter < truth.RetryAfter || d.States()[0].RetryAfter < truth.RetryAfter {
				t.Fatalf("%s: answered %v, retry-after %v; in truth %v, %v", l, d.Allowed, d.RetryAfter, truth.Allowed, truth.RetryAfter)
			}
		}
		if hits == 0 {
			t.Errorf("%s: nothing was answered from memory", l)
		}
	}
}

// An answer that took longer than the denial lasts is not worth keeping.
func TestDenyCacheAnswerArrivesTooLate(t *testing.T) {
	g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 1, stint.PerHour(1))
	g.want(r, true, fromStore)
	g.after = func() { g.clock.Advance(time.Second) }
	g.want(r, false, fromStore)
	g.want(r, false, fromStore)
}

// Whatever a denial depends on is part of the question: any difference asks the store.
func TestDenyCacheTellsQuestionsApart(t *testing.T) {
	base := func() stint.Request {
		r := ask("a", 3, stint.Limit{Max: 0, Window: time.Hour}, stint.Limit{Max: 100, Window: time.Minute, Burst: 200, Name: "x"})
		r.Scope = "s"
		r.And = []stint.Claim{{Subject: "b", Limits: []stint.Limit{stint.PerDay(1000)}, Cost: 2}}
		return r
	}
	for name, change := range map[string]func(*stint.Request){
		"subject":                   func(r *stint.Request) { r.Subject = "c" },
		"scope":                     func(r *stint.Request) { r.Scope = "" },
		"another scope":             func(r *stint.Request) { r.Scope = "t" },
		"cost":                      func(r *stint.Request) { r.Cost = 4 },
		"max":                       func(r *stint.Request) { r.Limits[1].Max, r.Limits[1].Burst = 50, 0 },
		"burst":                     func(r *stint.Request) { r.Limits[1].Burst = 300 },
		"window":                    func(r *stint.Request) { r.Limits[1].Window = 2 * time.Minute },
		"algorithm":                 func(r *stint.Request) { r.Limits[1].Algorithm = stint.Bucket },
		"name":                      func(r *stint.Request) { r.Limits[1].Name = "y" },
		"no name":                   func(r *stint.Request) { r.Limits[1].Name = "" },
		"lease":                     func(r *stint.Request) { r.Limits[0].Leased = true },
		"order":                     func(r *stint.Request) { r.Limits[0], r.Limits[1] = r.Limits[1], r.Limits[0] },
		"one limit less":            func(r *stint.Request) { r.Limits = r.Limits[:1] },
		"one limit more":            func(r *stint.Request) { r.Limits = append(r.Limits, stint.PerDay(1000)) },
		"one claim less":            func(r *stint.Request) { r.And = nil },
		"one claim more":            func(r *stint.Request) { r.And = append(r.And, ask("d", 1, stint.PerDay(1)).Claim) },
		"another claim":             func(r *stint.Request) { r.And[0].Subject = "c" },
		"its cost":                  func(r *stint.Request) { r.And[0].Cost = 3 },
		"its limit":                 func(r *stint.Request) { r.And[0].Limits[0].Max++ },
		"costs the other way round": func(r *stint.Request) { r.Cost, r.And[0].Cost = r.And[0].Cost, r.Cost },
		"bans":                      func(r *stint.Request) { r.Bans = &stint.BanPolicy{} },
		"shared":                    func(r *stint.Request) { r.Shared = true },
		"another claim is shared":   func(r *stint.Request) { r.And[0].Shared = true },
	} {
		t.Run(name, func(t *testing.T) {
			g, changed := newDenyRig(t, resilience.DenyCacheConfig{}), base()
			change(&changed)
			if err := changed.Validate(); err != nil {
				t.Fatal(err)
			}
			g.want(base(), false, fromStore)
			g.want(base(), false, fromMemory)
			g.want(changed, false, fromStore)
			g.want(changed, false, fromMemory)
			g.want(base(), false, fromMemory)
		})
	}
}

// F25: a limit that was raised admits at once, one that was lowered denies at once.
func TestDenyCacheLimitChanges(t *testing.T) {
	g := newDenyRig(t, resilience.DenyCacheConfig{})
	g.want(ask("a", 2, stint.PerHour(2)), true, fromStore)
	g.want(ask("a", 1, stint.PerHour(2)), false, fromStore)
	g.want(ask("a", 1, stint.PerHour(2)), false, fromMemory)
	g.want(ask("a", 1, stint.PerHour(2).WithBurst(2)), true, fromStore)
	g.want(ask("a", 1, stint.PerHour(4)), true, fromStore)
	g.want(ask("a", 1, stint.PerHour(4)), false, fromStore)
	g.want(ask("a", 1, stint.PerHour(2)), false, fromMemory)
}

func TestDenyCachePassesBy(t *testing.T) {
	full := ask("a", 1, stint.PerHour(1))
	for name, change := range map[string]func(*stint.Request){
		"request id": func(r *stint.Request) { r.ID = "x" },
		"peek":       func(r *stint.Request) { r.Mode = stint.Peek },
		"reserve":    func(r *stint.Request) { r.Mode, r.MaxWait = stint.Reserve, time.Second },
		"fit":        func(r *stint.Request) { r.Fit = true },
		"lease":      func(r *stint.Request) { r.Lease = time.Second },
		"strikes":    func(r *stint.Request) { r.Bans = strikes(100, time.Minute) },
		"strikes beside a shared subject": func(r *stint.Request) {
			r.Shared, r.Bans = true, strikes(100, time.Minute)
			r.And = []stint.Claim{ask("b", 1, stint.PerHour(1)).Claim}
		},
		"concurrency": func(r *stint.Request) {
			r.Limits = []stint.Limit{stint.PerHour(1), stint.AtOnce(1, time.Hour)}
		},
		"concurrency of another": func(r *stint.Request) {
			r.And = []stint.Claim{{Subject: "b", Limits: []stint.Limit{stint.AtOnce(1, time.Hour)}, Cost: 1}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, r := newDenyRig(t, resilience.DenyCacheConfig{}), full
			g.want(full, true, fromStore)
			g.want(full, false, fromStore)
			change(&r)
			if err := r.Validate(); err != nil {
				t.Fatal(err)
			}
			g.want(r, false, fromStore)
			g.want(r, false, fromStore)
			g.want(full, false, fromMemory)
		})
	}
	t.Run("no cost", func(t *testing.T) { // denied only in debt
		g := newDenyRig(t, resilience.DenyCacheConfig{})
		d := g.want(full, true, fromStore)
		if _, err := g.store.Amend(t.Context(), d.Charge, stint.Amendment{Cost: 5}); err != nil {
			t.Fatal(err)
		}
		g.want(ask("a", 0, stint.PerHour(1)), false, fromStore)
		g.want(ask("a", 0, stint.PerHour(1)), false, fromStore)
	})
}

// Only what the store itself decided, and will decide again, is kept.
func TestDenyCacheKeepsNoOtherAnswers(t *testing.T) {
	for name, change := range map[string]func(*stint.Decision, *error){
		"degraded":       func(d *stint.Decision, _ *error) { d.Degraded = true },
		"repeat":         func(d *stint.Decision, _ *error) { d.Repeat = true },
		"no retry-after": func(d *stint.Decision, _ *error) { d.RetryAfter = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 1, stint.PerHour(1))
			g.want(r, true, fromStore)
			g.change = change
			g.want(r, false, fromStore)
			g.want(r, false, fromStore)
		})
	}
	t.Run("error", func(t *testing.T) {
		g, r, broken := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 1, stint.PerHour(2)), errors.New("broken")
		g.change = func(d *stint.Decision, err *error) { // as careless a store as can be
			*d, *err = stint.Decision{RetryAfter: time.Hour}, broken
		}
		if _, err := g.cache.Take(t.Context(), r); err != broken {
			t.Fatalf("error is %v", err)
		}
		g.change = nil
		g.want(r, true, fromStore)
	})
}

// Everything that may make room drops the subject's denials, however it ended.
func TestDenyCacheDrops(t *testing.T) {
	settle := func(cost int64) func(*denyRig, stint.Charge) {
		return func(g *denyRig, c stint.Charge) {
			g.cache.Amend(context.Background(), c, stint.Amendment{Cost: cost})
		}
	}
	command := func(k stint.CommandKind) func(*denyRig, stint.Charge) {
		return func(g *denyRig, c stint.Charge) {
			g.cache.Command(context.Background(), stint.Command{
				Kind: k, Subject: c.Claim.Subject, Scope: c.Claim.Scope, Limits: c.Claim.Limits, For: time.Hour})
		}
	}
	for _, c := range []struct {
		name    string
		act     func(*denyRig, stint.Charge)
		allowed bool
	}{
		{"refund", settle(0), true},
		{"settle down", settle(1), true},
		{"settle up", settle(3), false},
		{"refund that seems to fail", func(g *denyRig, c stint.Charge) {
			g.amend = func(bool) (bool, error) { return false, context.DeadlineExceeded }
			settle(0)(g, c)
		}, true},
		{"release", func(g *denyRig, c stint.Charge) {
			g.cache.Amend(context.Background(), c, stint.Amendment{Kind: stint.Release})
		}, false},
		{"reset", command(stint.Reset), true},
		{"ban", command(stint.Ban), false},
		{"unban", command(stint.Unban), false},
		{"told of", func(g *denyRig, c stint.Charge) { g.cache.Drop(c.Claim.Subject) }, false},
		{"all", func(g *denyRig, c stint.Charge) { g.cache.Drop("") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 2, stint.PerHour(2))
			r.Scope, r.Bans = "s", &stint.BanPolicy{}
			one := r
			one.Cost = 1
			d := g.want(r, true, fromStore)
			g.want(one, false, fromStore)
			g.want(one, false, fromMemory)
			c.act(g, d.Charge)
			g.want(one, c.allowed, fromStore)
		})
	}
}

// What concerns others, or makes no room, drops nothing.
func TestDenyCacheDropsNoMore(t *testing.T) {
	g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 1, stint.PerHour(1))
	d := g.want(r, true, fromStore)
	g.want(r, false, fromStore)
	g.cache.Amend(t.Context(), d.Charge, stint.Amendment{Kind: stint.Extend})
	g.want(r, false, fromMemory)
	// A mistake of a caller's, with no subject at all, is not everybody's.
	g.cache.Amend(t.Context(), stint.Charge{}, stint.Amendment{})
	g.cache.Command(t.Context(), stint.Command{Kind: stint.Reset})
	g.want(r, false, fromMemory)
}

// A denial that was on its way while room was given back is outdated when it arrives.
func TestDenyCacheDropOvertakesADenial(t *testing.T) {
	for name, giveBack := range map[string]func(*denyRig, stint.Decision){
		"refund": func(g *denyRig, d stint.Decision) {
			g.cache.Amend(context.Background(), d.Charge, stint.Amendment{})
		},
		"elsewhere": func(g *denyRig, d stint.Decision) {
			g.store.Amend(context.Background(), d.Charge, stint.Amendment{})
			g.cache.Drop("b")
		},
		"anyone's": func(g *denyRig, d stint.Decision) {
			g.store.Amend(context.Background(), d.Charge, stint.Amendment{})
			g.cache.Drop("")
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newDenyRig(t, resilience.DenyCacheConfig{})
			d := g.want(ask("b", 1, stint.PerHour(1)), true, fromStore)
			r := ask("a", 1, stint.PerHour(10))
			r.And = []stint.Claim{{Subject: "b", Limits: []stint.Limit{stint.PerHour(1)}, Cost: 1}}
			g.after = func() {
				g.after = nil
				giveBack(g, d)
			}
			g.want(r, false, fromStore)
			g.want(r, true, fromStore)
		})
	}
}

func TestDenyCacheSeveralSubjects(t *testing.T) {
	g := newDenyRig(t, resilience.DenyCacheConfig{})
	request := func() stint.Request { // in memory of its own
		r := ask("user", 1, stint.PerHour(10), stint.PerDay(20))
		r.And = []stint.Claim{{Subject: "all", Scope: "x", Limits: []stint.Limit{stint.PerHour(1), stint.PerDay(5)}, Cost: 1}}
		return r
	}
	charged := g.want(request(), true, fromStore)
	first := g.want(request(), false, fromStore)
	first.Usages()[2].Used = 99 // a caller may do as it likes with its answer
	r := request()
	d := g.want(r, false, fromMemory)
	if d.Key() != "all:x" || d.Decider != 1 || d.Limit() != stint.PerHour(1) || len(d.States()) != 4 || d.States()[2].Used != 1 {
		t.Errorf("key %q, decider %d, limit %s, states %+v", d.Key(), d.Decider, d.Limit(), d.States())
	}
	if and := d.Charge.And(); d.Charge.ID != 0 || &d.Charge.Claim.Limits[0] != &r.Limits[0] || &and[0] != &r.And[0] {
		t.Errorf("the charge is not that of its request: %+v", d.Charge)
	}
	d.Usages()[2].Used = 98
	if d = g.want(r, false, fromMemory); d.Usages()[2].Used != 1 {
		t.Errorf("used is %d, as another caller left it", d.Usages()[2].Used)
	}
	g.cache.Drop("user")
	g.want(r, false, fromStore)
	g.want(r, false, fromMemory)
	if _, err := g.cache.Amend(t.Context(), charged.Charge, stint.Amendment{}); err != nil {
		t.Fatal(err)
	}
	g.want(r, true, fromStore)
}

// A refund of several subjects drops the denials of each.
func TestDenyCacheDropsEverySubject(t *testing.T) {
	g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 1, stint.PerHour(1))
	r.And = []stint.Claim{ask("b", 1, stint.PerHour(1)).Claim}
	d := g.want(r, true, fromStore)
	for _, subject := range []string{"a", "b"} {
		g.want(ask(subject, 1, stint.PerHour(1)), false, fromStore)
	}
	if _, err := g.cache.Amend(t.Context(), d.Charge, stint.Amendment{}); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"a", "b"} {
		g.want(ask(subject, 1, stint.PerHour(1)), true, fromStore)
	}
}

// One claim that costs is enough.
func TestDenyCacheSomeClaimsOnlyLook(t *testing.T) {
	for _, costs := range [][2]int64{{2, 0}, {0, 2}} {
		g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", costs[0], stint.PerHour(1))
		r.And = []stint.Claim{ask("b", costs[1], stint.PerHour(1)).Claim}
		g.want(r, false, fromStore)
		g.want(r, false, fromMemory)
	}
}

func strikes(after int, first time.Duration) *stint.BanPolicy {
	return &stint.BanPolicy{After: after, Within: time.Hour, Durations: []time.Duration{first, time.Hour}, Forgive: time.Hour}
}

// Every denial that counts reaches the store; once banned, none needs to.
func TestDenyCacheBans(t *testing.T) {
	g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 1, stint.PerHour(1))
	obeys := r // it adds no strike, so its denials are kept, but not for those that do
	obeys.Bans = &stint.BanPolicy{}
	r.Bans = strikes(5, time.Minute)
	g.want(r, true, fromStore)
	for range 4 {
		g.want(obeys, false, g.cache.Held() == 0)
		if d := g.want(r, false, fromStore); d.Banned {
			t.Fatal("banned too early")
		}
	}
	if d := g.want(r, false, fromStore); !d.Banned {
		t.Fatal("not banned by the fifth denial")
	}
	for range 10 {
		if d := g.want(r, false, fromMemory); !d.Banned || d.Key() != "a" {
			t.Fatalf("banned is %v, key %q", d.Banned, d.Key())
		}
	}
	g.cache.Drop("")
	if d := g.want(obeys, false, fromStore); !d.Banned || d.RetryAfter != time.Minute {
		t.Errorf("banned is %v, retry-after %v", d.Banned, d.RetryAfter)
	}
	if d := g.want(obeys, false, fromMemory); !d.Banned {
		t.Error("banned is false")
	}
	free := r
	free.Bans = nil // it does not look for bans
	free.Limits = []stint.Limit{stint.PerHour(2)}
	g.want(free, true, fromStore)
	if err := g.cache.Command(t.Context(), stint.Command{Kind: stint.Unban, Subject: "a"}); err != nil {
		t.Fatal(err)
	}
	if d := g.want(r, false, fromStore); d.Banned {
		t.Error("banned after an unban")
	}
}

// No denial counts where every subject is shared, so each is kept.
func TestDenyCacheShared(t *testing.T) {
	g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 1, stint.PerHour(1))
	own := r
	r.Shared, r.Bans, own.Bans = true, strikes(2, time.Minute), &stint.BanPolicy{}
	g.want(r, true, fromStore)
	g.want(r, false, fromStore)
	for range 5 {
		if d := g.want(r, false, fromMemory); d.Banned {
			t.Fatal("a shared subject was banned")
		}
	}
	if err := g.cache.Command(t.Context(), stint.Command{Kind: stint.Ban, Subject: "a", For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for _, from := range []bool{fromStore, fromMemory} {
		if d := g.want(own, false, from); !d.Banned {
			t.Error("who is not shared was not banned")
		}
		if d := g.want(r, false, from); d.Banned {
			t.Error("who is shared was banned")
		}
	}
}

// The denial that leads to a ban may last longer than the ban: when that ends, strikes
// count again.
func TestDenyCacheShortBan(t *testing.T) {
	g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 2, stint.PerHour(1))
	r.Bans = strikes(1, 10*time.Millisecond)
	if d := g.want(r, false, fromStore); !d.Banned || d.RetryAfter != stint.Never {
		t.Fatalf("banned is %v, retry-after %v", d.Banned, d.RetryAfter)
	}
	g.clock.Advance(10*time.Millisecond - 1)
	g.want(r, false, fromMemory)
	g.clock.Advance(time.Microsecond)
	g.want(r, false, fromStore)
	r.Limits = []stint.Limit{stint.PerHour(100)}
	if d := g.want(r, false, fromStore); d.RetryAfter != time.Hour {
		t.Errorf("retry-after is %v, want that of the second ban", d.RetryAfter)
	}
}

// F26: what somebody deletes behind our back heals within a second.
func TestDenyCacheDeletedBehindOurBack(t *testing.T) {
	g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 1, stint.PerDay(1))
	g.want(r, true, fromStore)
	g.want(r, false, fromStore)
	if err := g.store.Command(t.Context(), stint.Command{Kind: stint.Reset, Subject: "a", Limits: r.Limits}); err != nil {
		t.Fatal(err)
	}
	g.clock.Advance(time.Second - 1)
	g.want(r, false, fromMemory)
	g.clock.Advance(1)
	g.want(r, true, fromStore)
}

// F26: when the store's clock steps, nobody is denied wrongly for more than a second either.
func TestDenyCacheStoreClockSteps(t *testing.T) {
	for _, step := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
		g, r := newDenyRig(t, resilience.DenyCacheConfig{}), ask("a", 1, stint.PerDay(1))
		var passed time.Duration // the cache's own clock knows nothing of the step
		g.cache.SetClock(func() time.Duration { return passed })
		g.want(r, true, fromStore)
		g.want(r, false, fromStore)
		g.clock.Advance(step)
		passed += time.Second
		truth, err := g.store.Take(t.Context(), stint.Request{Claim: r.Claim, Mode: stint.Peek})
		if err != nil {
			t.Fatal(err)
		}
		g.want(r, truth.Allowed, fromStore)
	}
}

// deniesAll is a store that denies every subject, for as long as its name says.
type deniesAll struct{ calls int }

func (s *deniesAll) Take(_ context.Context, r stint.Request) (stint.Decision, error) {
	s.calls++
	n, _ := strconv.Atoi(r.Subject)
	d := stint.Decision{RetryAfter: time.Hour + time.Duration(n)*time.Second, Charge: stint.ChargeOf(&r)}
	d.Grow(1)[0] = stint.Usage{Used: int64(n), RetryAfter: d.RetryAfter, ResetAfter: d.RetryAfter}
	return d, nil
}

func (s *deniesAll) Amend(context.Context, stint.Charge, stint.Amendment) (bool, error) {
	return false, nil
}

func (s *deniesAll) Command(context.Context, stint.Command) error { return nil }

// F26: a million denied keys take no more room than the table has, and each is told its own.
func TestDenyCacheMillionKeys(t *testing.T) {
	const keys, entries = 1_000_000, 1 << 14
	store := &deniesAll{}
	c := resilience.NewDenyCache(store, resilience.DenyCacheConfig{Entries: entries - 100})
	c.SetClock(func() time.Duration { return 0 })
	limits := []stint.Limit{stint.PerDay(1)}
	memory := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := memory()
	for n := range keys {
		r := ask(strconv.Itoa(n), 1, limits...)
		for range 1 + n%8/7 { // some ask again
			d, _ := c.Take(t.Context(), r)
			if want := time.Hour + time.Duration(n)*time.Second; d.Allowed || d.RetryAfter != want || d.Usages()[0].Used != int64(n) || d.Key() != r.Subject {
				t.Fatalf("key %d: retry-after %v, used %d, key %s", n, d.RetryAfter, d.Usages()[0].Used, d.Key())
			}
		}
	}
	if store.calls != keys {
		t.Errorf("the store was asked %d times about %d keys, want once for each", store.calls, keys)
	}
	if held := c.Held(); held != entries {
		t.Errorf("%d denials are held, want a full table of %d", held, entries)
	}
	if grown := int64(memory() - before); grown > entries*256 {
		t.Errorf("grown by %d bytes, want at most 256 for each of %d entries", grown, entries)
	}
	runtime.KeepAlive(c)
}

// A denial takes the place of an older one of the same key, and keeps nothing of its
// request alive.
func TestDenyCacheHoldsLittle(t *testing.T) {
	c := resilience.NewDenyCache(&deniesAll{}, resilience.DenyCacheConfig{})
	var freed atomic.Int64
	const requests, keys = 100, 50
	for i := range requests {
		subject := strconv.Itoa(i % keys)
		limits := &[2]stint.Limit{stint.PerDay(1), stint.PerHour(1)}
		runtime.AddCleanup(limits, func(int) { freed.Add(1) }, 0)
		c.Take(t.Context(), ask(subject, 1, limits[:]...))
		c.Drop(subject)
	}
	if held := c.Held(); held != keys {
		t.Errorf("%d denials of %d keys are held", held, keys)
	}
	for i := 0; freed.Load() < requests-1; i++ { // the last one may still be on the stack
		if i == 1000 {
			t.Fatalf("of %d requests only %d were let go", requests, freed.Load())
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	runtime.KeepAlive(c)
}

func TestDenyCacheTableSizes(t *testing.T) {
	for entries, want := range map[int]int{-1: resilience.DefaultDenials, 0: resilience.DefaultDenials, 1: 4, 5: 8, 64: 64, 65: 128} {
		c := resilience.NewDenyCache(&deniesAll{}, resilience.DenyCacheConfig{Entries: entries})
		if room := c.Room(); room != want {
			t.Errorf("Entries %d: room for %d, want %d", entries, room, want)
		}
	}
}

// Callers in parallel fill, are denied, refund and are let in again, over a table that is too
// small for them. Whoever had something refunded finds the room at once.
func TestDenyCacheInParallel(t *testing.T) {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c := resilience.NewDenyCache(store, resilience.DenyCacheConfig{Entries: 8, Observer: resilience.Silent{}})
	ctx, limits := t.Context(), []stint.Limit{stint.PerHour(1)}
	var group, noise sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		noise.Go(func() { // they deny each other's subjects, and drop
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				c.Take(ctx, ask(fmt.Sprint(i%8), 2, limits...))
				if i%1000 == 0 {
					c.Drop("")
				}
				runtime.Gosched()
			}
		})
	}
	for n := range 8 {
		group.Go(func() {
			r := ask(fmt.Sprint(n), 1, limits...)
			for range 1000 {
				d, err := c.Take(ctx, r)
				if err != nil || !d.Allowed {
					t.Errorf("subject %d: denied after its refund: %v", n, err)
					return
				}
				for range 3 {
					if d, err := c.Take(ctx, r); err != nil || d.Allowed || d.RetryAfter <= 0 {
						t.Errorf("subject %d: allowed is %v, retry-after %v, error %v", n, d.Allowed, d.RetryAfter, err)
						return
					}
				}
				if ok, err := c.Amend(ctx, d.Charge, stint.Amendment{}); err != nil || !ok {
					t.Errorf("subject %d: refund: %v, %v", n, ok, err)
					return
				}
			}
		})
	}
	group.Wait()
	close(stop)
	noise.Wait()
}

// listener hears what was saved.
type listener struct {
	resilience.Silent
	subjects []string
}

func (l *listener) Saved(r *stint.Request, by resilience.Saver) {
	if by == resilience.ByDenyCache {
		l.subjects = append(l.subjects, r.Subject)
	}
}

func TestDenyCacheTellsTheObserver(t *testing.T) {
	l := &listener{}
	g := newDenyRig(t, resilience.DenyCacheConfig{Observer: l})
	for _, subject := range []string{"a", "b"} {
		r := ask(subject, 1, stint.PerHour(1))
		g.want(r, true, fromStore)
		g.want(r, false, fromStore)
		g.want(r, false, fromMemory)
		g.want(r, false, fromMemory)
	}
	if got := fmt.Sprint(l.subjects); got != "[a a b b]" {
		t.Errorf("heard of %s, want [a a b b]", got)
	}
}

func TestDenyCacheHitAllocatesNothing(t *testing.T) {
	c := resilience.NewDenyCache(&deniesAll{}, resilience.DenyCacheConfig{})
	c.SetClock(func() time.Duration { return 0 })
	r := ask("1", 1, stint.PerMinute(1), stint.PerHour(1), stint.PerDay(1))
	if n := testing.AllocsPerRun(100, func() { c.Take(context.Background(), r) }); n != 0 {
		t.Errorf("a hit allocates %v times", n)
	}
}

func benchDenials(b *testing.B, cfg resilience.DenyCacheConfig, limits ...stint.Option) *stint.Limiter {
	c := resilience.NewDenyCache(&deniesAll{}, cfg)
	c.SetClock(nil)
	lim, err := stint.New(c, limits...)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	return lim
}

func BenchmarkDenyCacheHit(b *testing.B) {
	ctx := context.Background()
	three := []stint.Option{stint.PerMinute(1), stint.PerHour(1), stint.PerDay(1)}
	hit := func(cfg resilience.DenyCacheConfig, limits ...stint.Option) func(b *testing.B) {
		return func(b *testing.B) {
			lim := benchDenials(b, cfg, limits...)
			for b.Loop() {
				lim.Allow(ctx, "12345678")
			}
		}
	}
	b.Run("limits=1", hit(resilience.DenyCacheConfig{}, three[:1]...))
	b.Run("limits=3", hit(resilience.DenyCacheConfig{}, three...))
	b.Run("observed", hit(resilience.DenyCacheConfig{Observer: resilience.Silent{}}, three[:1]...))
	b.Run("parallel", func(b *testing.B) {
		lim := benchDenials(b, resilience.DenyCacheConfig{}, three[:1]...)
		lim.Allow(ctx, "12345678")
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				lim.Allow(ctx, "12345678")
			}
		})
	})
	b.Run("keys=50000", func(b *testing.B) { // most of them in nobody's cache lines
		lim := benchDenials(b, resilience.DenyCacheConfig{}, three[:1]...)
		keys := manyKeys(50_000)
		for i := 0; b.Loop(); i++ {
			lim.Allow(ctx, keys[i%len(keys)])
		}
	})
}

// A miss of a full table, over a store that costs nothing but allows.
func BenchmarkDenyCacheMiss(b *testing.B) {
	store := &deniesAll{}
	c := resilience.NewDenyCache(&mostlyAllows{store}, resilience.DenyCacheConfig{})
	lim, err := stint.New(c, stint.PerDay(1))
	if err != nil {
		b.Fatal(err)
	}
	ctx, keys := context.Background(), manyKeys(200_000)
	for _, k := range keys {
		lim.AllowN(ctx, k, 2)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		lim.Allow(ctx, keys[i%len(keys)])
	}
}

// mostlyAllows denies only costs above one.
type mostlyAllows struct{ *deniesAll }

func (s *mostlyAllows) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if r.Cost > 1 {
		return s.deniesAll.Take(ctx, r)
	}
	return stint.Decision{Allowed: true}, nil
}

func manyKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = strconv.Itoa(10_000_000 + i)
	}
	return keys
}
