package resilience

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/storetest"
)

func TestDenyCacheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		g := newDenyRig(t, Config{})
		return storetest.Harness{Store: g.cache, Clock: g.clock, NeverOver: true}
	})
}

func TestDenyCacheRepeatsForASecond(t *testing.T) {
	g, r := newDenyRig(t, Config{}), ask("a", 1, stint.PerHour(1))
	g.want(r, true, fromStore)
	g.clock.Advance(time.Minute)
	first := g.want(r, false, fromStore)
	g.clock.Advance(time.Second - time.Microsecond)
	d := g.want(r, false, fromMemory)
	passed := time.Second - time.Microsecond
	if want := first.RetryAfter - passed; d.RetryAfter != want || d.States()[0].RetryAfter != want {
		t.Errorf("retry-after is %v and %v, want %v", d.RetryAfter, d.States()[0].RetryAfter, want)
	}
	if want := first.Decisive().ResetAfter - passed; d.Decisive().ResetAfter != want {
		t.Errorf("reset-after is %v, want %v", d.Decisive().ResetAfter, want)
	}
	if d.Key() != "a" || d.Remaining() != 0 || d.Charge.Data().ID != 0 || *d.Decisive().Limit != stint.PerHour(1) {
		t.Errorf("key %q, remaining %d, charge %+v, limit %s", d.Key(), d.Remaining(), d.Charge, *d.Decisive().Limit)
	}
	g.clock.Advance(time.Microsecond)
	g.want(r, false, fromStore)
}

func TestDenyCacheEndsWithTheRetryAfter(t *testing.T) {
	g, r := newDenyRig(t, Config{}), ask("a", 1, stint.Per(1, 100*time.Millisecond))
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
	g, r := newDenyRig(t, Config{}), ask("a", 1, stint.PerHour(1))
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
	g, r := newDenyRig(t, Config{}), ask("a", 1, stint.Per(1, 100*time.Millisecond), stint.PerHour(1))
	g.want(r, true, fromStore)
	g.want(r, false, fromStore)
	g.clock.Advance(200 * time.Millisecond)
	d := g.want(r, false, fromMemory)
	if s := d.States(); s[0].RetryAfter != 0 || s[0].ResetAfter != 0 || s[1].RetryAfter != d.RetryAfter {
		t.Errorf("retry-after %v, states %+v", d.RetryAfter, s)
	}
}

func TestDenyCacheNeverStaysNever(t *testing.T) {
	g, r := newDenyRig(t, Config{}), ask("a", 11, stint.PerHour(10), stint.PerDay(20))
	g.want(r, false, fromStore)
	g.clock.Advance(time.Second - 1)
	d := g.want(r, false, fromMemory)
	if s := d.States(); d.RetryAfter != stint.Never || s[0].RetryAfter != stint.Never || s[1].RetryAfter != 0 ||
		s[0].ResetAfter != 0 {
		t.Errorf("retry-after %v, states %+v", d.RetryAfter, s)
	}
	g.clock.Advance(1)
	g.want(r, false, fromStore)
}

// Over a network that takes its time in both directions, no denial is repeated that the store would
// not make, and nobody is told to come before the store would have them.
func TestDenyCacheIsTrueOverASlowNetwork(t *testing.T) {
	for _, l := range []stint.Limit{
		stint.Per(3, 700*time.Millisecond), stint.Per(300, 2*time.Second),
		stint.TokenBucket(5, 7, 1000003*time.Microsecond),
		{Max: 4, Window: 300 * time.Millisecond, Algorithm: stint.AlgorithmFixed}, stint.PerSecond(2).WithBurst(3),
	} {
		g, hits := newDenyRig(t, Config{}), 0
		travel := func() { g.clock.Advance(time.Duration(rand.IntN(60_000)) * time.Microsecond) }
		g.before, g.after = travel, travel
		r := ask("a", 1+l.Capacity()/3, l)
		look := r
		look.Mode = stint.ModePeek
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
			if d.Allowed || truth.Allowed || d.RetryAfter < truth.RetryAfter ||
				d.States()[0].RetryAfter < truth.RetryAfter {
				t.Fatalf(
					"%s: answered %v, retry-after %v; in truth %v, %v",
					l,
					d.Allowed,
					d.RetryAfter,
					truth.Allowed,
					truth.RetryAfter,
				)
			}
		}
		if hits == 0 {
			t.Errorf("%s: nothing was answered from memory", l)
		}
	}
}

// An answer that took longer than the denial lasts is not worth keeping.
func TestDenyCacheAnswerArrivesTooLate(t *testing.T) {
	g, r := newDenyRig(t, Config{}), ask("a", 1, stint.PerHour(1))
	g.want(r, true, fromStore)
	g.after = func() { g.clock.Advance(time.Second) }
	g.want(r, false, fromStore)
	g.want(r, false, fromStore)
}

func TestDenyCacheNeverAnswersForce(t *testing.T) {
	g, r := newDenyRig(t, Config{}), ask("a", 1, stint.PerHour(1))
	g.want(r, true, fromStore)
	g.want(r, false, fromStore)
	force := r
	force.Mode = driver.ModeForce
	for range 2 {
		g.want(force, true, fromStore)
		g.want(r, false, fromMemory)
	}
}

func TestDenyCachePassesBy(t *testing.T) {
	request := func() stint.Request { return ask("a", 1, stint.PerHour(1)) }
	full := request()
	for name, change := range map[string]func(*stint.Request){
		"request id": func(r *stint.Request) { r.ID = "x" },
		"peek":       func(r *stint.Request) { r.Mode = stint.ModePeek },
		"reserve":    func(r *stint.Request) { r.Mode, r.MaxWait = stint.ModeReserve, time.Second },
		"fit":        func(r *stint.Request) { r.Terms().Fit = true },
		"lease":      func(r *stint.Request) { r.Terms().Lease = time.Second },
		"strikes":    func(r *stint.Request) { r.Bans = banAfter(100, time.Minute) },
		"strikes beside a shared subject": func(r *stint.Request) {
			r.Claims[0].Shared, r.Bans = true, banAfter(100, time.Minute)
			r.Claims = append(r.Claims[:1:1], []stint.Claim{ask("b", 1, stint.PerHour(1)).Claims[0]}...)
		},
		"concurrency": func(r *stint.Request) {
			r.Claims[0].Limits = []stint.Limit{stint.PerHour(1), stint.AtOnce(1, time.Hour)}
		},
		"concurrency of another": func(r *stint.Request) {
			r.Claims = append(r.Claims,
				stint.Claim{Subject: "b", Limits: []stint.Limit{stint.AtOnce(1, time.Hour)}, Cost: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, r := newDenyRig(t, Config{}), request()
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
		g := newDenyRig(t, Config{})
		d := g.want(full, true, fromStore)
		if _, err := g.store.Amend(t.Context(), d.Charge, stint.Amendment{Cost: 5}); err != nil {
			t.Fatal(err)
		}
		g.want(ask("a", 0, stint.PerHour(1)), false, fromStore)
		g.want(ask("a", 0, stint.PerHour(1)), false, fromStore)
	})
}

// Only what was decided, and will be decided again, is kept.
func TestDenyCacheKeepsNoOtherAnswers(t *testing.T) {
	for name, change := range map[string]func(*stint.Decision, *error){
		"unavailable":    func(d *stint.Decision, _ *error) { d.Degraded, d.Unavailable = true, true },
		"repeat":         func(d *stint.Decision, _ *error) { d.Repeat = true },
		"no retry-after": func(d *stint.Decision, _ *error) { d.RetryAfter = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			g, r := newDenyRig(t, Config{}), ask("a", 1, stint.PerHour(1))
			g.want(r, true, fromStore)
			g.change = change
			g.want(r, false, fromStore)
			g.want(r, false, fromStore)
		})
	}
	t.Run("error", func(t *testing.T) {
		g, r, broken := newDenyRig(t, Config{}), ask("a", 1, stint.PerHour(2)), errors.New("broken")
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

func TestDenyCacheIsObserved(t *testing.T) {
	var subjects []string
	g := newDenyRig(t, Config{Observer: observerFunc(func(event any) {
		if e := event.(*Decided); e.Source == sourceDenyCache && !e.Decision.Allowed && e.Decision.RetryAfter > 0 {
			subjects = append(subjects, e.Request.Claims[0].Subject)
		}
	})})
	for _, subject := range []string{"a", "b"} {
		r := ask(subject, 1, stint.PerHour(1))
		g.want(r, true, fromStore)
		g.want(r, false, fromStore)
		g.want(r, false, fromMemory)
		g.want(r, false, fromMemory)
	}
	if got := fmt.Sprint(subjects); got != "[a a b b]" {
		t.Errorf("heard of %s, want [a a b b]", got)
	}
}
