package resilience

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
)

func TestFallbackAmendments(t *testing.T) {
	inner := newFlaky(t)
	f := newFallbackFor(t, inner, Config{Instances: 2})
	other := newFallbackFor(t, inner, Config{Instances: 2})
	l := stint.PerHour(1000) // counted in slices: any charge of that time looks alike
	amend := func(s stint.Store, d stint.Decision, a stint.Amendment) (stint.Amended, error) {
		return s.Amend(t.Context(), d.Charge, a)
	}
	shared := mustDecide(t, f, oneUnit("a", l))
	inner.down()
	plain := mustDecide(t, f, oneUnit("b", l))
	r := oneUnit("c", l)
	r.ID = "id"
	r.Claims = append(r.Claims[:1:1], stint.Claim{Subject: "d", Limits: []stint.Limit{stint.PerHour(50)}, Cost: 2})
	several := mustDecide(t, f, r)
	mustDecide(t, other, oneUnit("b", l))
	if !plain.Charge.Data().Fallback || !several.Charge.Data().Fallback ||
		several.Charge.Data().RequestID != "id" || several.Charge.Claims()[1].Limits[0].Max != 50 {
		t.Errorf("charges %+v and %+v", plain.Charge, several.Charge)
	}
	for _, d := range []stint.Decision{plain, several} {
		if changed, err := amend(other, d, stint.Amendment{}); changed.Changed || err != nil {
			t.Errorf("in another process: %v, %v, want no change", changed, err)
		}
		before := inner.amends.Load()
		if changed, err := amend(f, d, stint.Amendment{}); !changed.Changed || err != nil {
			t.Errorf("%v, %v, want a change", changed, err)
		}
		if changed, err := amend(f, d, stint.Amendment{}); changed.Changed || err != nil {
			t.Errorf("again: %v, %v, want none", changed, err)
		}
		if inner.amends.Load() != before {
			t.Error("the store was asked")
		}
	}
	for subject, want := range map[string]int64{"b": 500, "c": 500} { // of which nothing is left to others
		if got := usedOf(t, f, subject, l); got != want {
			t.Errorf("%s has used %d, want %d", subject, got, want)
		}
	}
	if d := mustDecide(t, f, r); d.Repeat {
		t.Error("the refund did not forget the request ID")
	}
	holder := mustDecide(t, f, oneUnit("e", stint.AtOnce(2, time.Minute)))
	for _, kind := range []stint.AmendmentKind{stint.AmendExtend, stint.AmendRelease} {
		if changed, err := amend(f, holder, stint.Amendment{Kind: kind}); !changed.Changed || err != nil {
			t.Errorf("holder: %v, %v", changed, err)
		}
	}
	if done, err := amend(f, shared, stint.Amendment{}); !done.Changed || err != nil {
		t.Errorf("refund of a charge in the store: %v, %v; want it later", done, err)
	}
}

// A part of a local charge is amended locally, and only that is charged to the store less or more.
func TestFallbackAmendsParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		f := newFallbackFor(t, inner, Config{Instances: 1})
		requests, budget, ceiling := stint.PerHour(10), stint.PerHour(1000).WithName("budget"), stint.PerHour(5000)
		r := oneUnit("a", requests)
		r.Claims = append(r.Claims[:1:1], []stint.Claim{
			{Subject: "a", Limits: []stint.Limit{budget}, Cost: 50},
			{Subject: "all", Limits: []stint.Limit{ceiling}, Cost: 50, Shared: true},
		}...)
		inner.fail(refusedCall())
		d := mustDecide(t, f, r)
		want := func(s stint.Store, n, units, total int64) {
			t.Helper()
			if a, b, c := usedOf(t, s, "a", requests), usedOf(t, s, "a", budget), usedOf(
				t, s, "all", ceiling); a != n || b != units || c != total {
				t.Errorf("used is %d, %d and %d, want %d, %d and %d", a, b, c, n, units, total)
			}
		}
		want(f, 1, 50, 50)
		for _, applies := range []bool{true, false} {
			changed, err := f.Amend(t.Context(), d.Charge.Part(1, 2), stint.Amendment{Cost: 30})
			if changed.Changed != applies || err != nil {
				t.Fatalf("settled the part: %v, %v, want %v", changed, err, applies)
			}
			want(f, 1, 30, 30)
		}
		inner.up()
		time.Sleep(2 * time.Second)
		want(inner, 1, 30, 30)
	})
}

// A repeat without the store has the charge of the first request, wherever that was charged: it is
// settled once between them, here and in the store.
func TestFallbackRepeatsHaveTheCharge(t *testing.T) {
	for name, local := range map[string]bool{"charged here": true, "charged in the store": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := newFlaky(t)
				f := newFallbackFor(t, inner, Config{Instances: 1})
				l := stint.PerHour(1000)
				inner.fail(refusedCall())
				mustDecide(t, f, oneUnit("a", l)) // now something is known of the subject
				if !local {
					inner.up()
					time.Sleep(2 * time.Second)
				}
				r := oneUnit("a", l)
				r.ID, r.Claims[0].Cost = "x", 5
				first := mustDecide(t, f, r)
				time.Sleep(time.Millisecond)
				inner.fail(refusedCall())
				r.Claims[0].Cost = 3
				again := mustDecide(t, f, r)
				if !again.Repeat || !again.Degraded || again.Charge.IsZero() || again.Charge.Claims()[0].Cost != 5 {
					t.Fatalf("repeat %+v", again)
				}
				settle := func(d stint.Decision, want bool) {
					t.Helper()
					if done, err := f.Amend(t.Context(), d.Charge, stint.Amendment{Cost: 20}); done.Changed != want ||
						err != nil {
						t.Errorf("settled: %+v, %v, want %v", done, err, want)
					}
				}
				settle(again, true)
				settle(again, false)
				inner.up()
				time.Sleep(3 * time.Second)
				settle(first, false)
				time.Sleep(3 * time.Second)
				if got := usedOf(t, inner, "a", l); got != 21 {
					t.Errorf("the store counts %d, want 21", got)
				}
			})
		})
	}
}

func TestFallbackCommands(t *testing.T) {
	inner := newFlaky(t)
	f := newFallbackFor(t, inner, Config{})
	r := oneUnit("a", stint.PerHour(1))
	r.Bans = &stint.BanPolicy{}
	reset := stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: r.Claims[0].Limits}
	mustDecide(t, f, r)
	inner.down()
	if mustDecide(t, f, r).Allowed {
		t.Error("not warned by what the store said")
	}
	for _, c := range []struct {
		command         stint.Command
		allowed, banned bool
	}{
		{reset, true, false},
		{stint.Command{Kind: stint.CommandBan, Subject: "a", For: time.Hour}, false, true},
		{stint.Command{Kind: stint.CommandUnban, Subject: "a"}, false, false},
		{reset, true, false},
	} {
		if err := f.Command(t.Context(), c.command); !errors.Is(err, errDown) {
			t.Errorf("command: %v, want the store's error", err)
		}
		if d := mustDecide(t, f, r); d.Allowed != c.allowed || d.Banned != c.banned {
			t.Errorf("after command %d: allowed %v, banned %v", c.command.Kind, d.Allowed, d.Banned)
		}
	}
	inner.up()
	if err := f.Command(t.Context(), reset); err != nil {
		t.Error(err)
	}
}

// TestF52AgedRefunds: requests of one window that are refunded in the next give nothing of that one
// back: what is owed by then is of others.
func TestF52AgedRefunds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		f := newFallbackFor(t, inner, Config{Instances: 1})
		const most = 20
		limits := []stint.Limit{stint.PerMinute(most), stint.PerHour(1000)} // the second keeps the charges
		use := func() (admitted []stint.Decision) {
			for range 2 * most {
				if d := mustDecide(t, f, oneUnit("a", limits...)); d.Allowed {
					admitted = append(admitted, d)
				}
			}
			return admitted
		}
		inner.down()
		slow := use()
		time.Sleep(64 * time.Second)
		if n := len(use()); n != most {
			t.Fatalf("%d in the second window, want %d", n, most)
		}
		for _, d := range slow {
			if _, err := f.Amend(t.Context(), d.Charge, stint.Amendment{}); err != nil {
				t.Fatal(err)
			}
		}
		inner.up()
		for range 50 { // what is owed is charged meanwhile
			time.Sleep(200 * time.Millisecond)
			if d := mustDecide(t, f, oneUnit("a", limits...)); d.Allowed {
				t.Fatal("one more in the second window")
			}
		}
		time.Sleep(time.Minute)
		if got := usedOf(t, f, "a", limits[1]); got != most {
			t.Errorf("%d are used of the hour, want %d", got, most)
		}
	})
}
