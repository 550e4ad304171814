package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// inspectorOf returns a store as an inspector, or nil if it is not one.
func inspectorOf(ctx context.Context, store stint.Store) driver.Inspector {
	inspector, ok := store.(driver.Inspector)
	if !ok {
		return nil
	}
	if _, err := inspector.Inspect(ctx, stint.Claim{Subject: "anybody"}); errors.Is(err, errors.ErrUnsupported) {
		return nil // it wraps a store that is not an inspector
	}
	return inspector
}

// inspector returns the store as an inspector, and skips the test if it is not one.
func (k *tester) inspector() driver.Inspector {
	k.Helper()
	inspector := inspectorOf(k.Context(), k.Store)
	if inspector == nil {
		k.Skip("the store is not a driver.Inspector")
	}
	return inspector
}

// inspect inspects a subject. If the harness has a Clock, it also checks that the usages equal
// those of a peek.
func (k *tester) inspect(c stint.Claim) driver.Inspection {
	k.Helper()
	shown, err := k.inspector().Inspect(k.Context(), c)
	if err != nil {
		k.Fatalf("inspect: %v", err)
	}
	if len(c.Limits) > 0 && k.Clock != nil {
		c.Cost = 1
		looked := k.look(stint.Request{Claims: []stint.Claim{c}})
		for i, w := range shown.Windows {
			if got, want := stateText(w.State), stateText(looked.States()[i]); got != want {
				k.Errorf("%s: inspected %s, but a peek reports %s", w.Limit, got, want)
			}
		}
	}
	return shown
}

func (k *tester) window() driver.Window {
	k.Helper()
	return k.inspect(k.request(0).Claims[0]).Windows[0]
}

// wantEntries checks the entries of a window. Each element of want has the form "from-until:units",
// with times since the start of the clock.
func (k *tester) wantEntries(w driver.Window, want ...string) {
	k.Helper()
	if got := entriesText(w); got != strings.Join(want, " ") {
		k.Errorf("%s: entries are %q, want %q", w.Limit, got, strings.Join(want, " "))
	}
}

func entriesText(w driver.Window) string {
	since := func(t time.Time) string {
		if t.IsZero() {
			return "held"
		}
		return t.Sub(epoch).String()
	}
	var words []string
	for _, e := range w.Entries {
		words = append(words, fmt.Sprintf("%s-%s:%d", since(e.At), since(e.Until), e.Units))
	}
	if w.LeftOut > 0 {
		words = append(words, fmt.Sprintf("left out %d", w.LeftOut))
	}
	return strings.Join(words, " ")
}

func banText(b driver.BanState) string {
	until := "none"
	if !b.Until.IsZero() {
		until = "until " + b.Until.Sub(epoch).String()
	}
	return fmt.Sprintf("%s level %d strikes %d", until, b.Level, b.Strikes)
}

var inspecting = []check{
	exact("an unknown subject has used nothing",
		append(eachAlgorithm(2), stint.PerDay(100_000), stint.PerHour(0)), func(k *tester) {
			shown := k.inspect(stint.Claim{Subject: k.subject, Scope: "anywhere",
				Limits: k.with(k.limit().WithName("other")).limits})
			if banText(shown.Ban) != "none level 0 strikes 0" || shown.Now.IsZero() || len(shown.Windows) != 2 {
				k.Fatalf("ban %s, now %v, %d windows", banText(shown.Ban), shown.Now, len(shown.Windows))
			}
			for _, w := range shown.Windows {
				k.wantEntries(w)
				if w.Limit.Max != k.limit().Max || w.Used != 0 || w.ResetAfter != 0 {
					k.Errorf("%s: %s, want nothing used of %s", w.Limit, stateText(w.State), k.limit())
				}
			}
		}),
	clocked("large limits show slices, and fixed ones their windows", nil, func(k *tester) {
		large := stint.Per(1000, 125*s) // counted in slices of a second
		fixed := fixed(1000, time.Minute)
		now := k.Clock.Now()
		k.under(large, fixed).mustTake(3)
		k.pass(now.Truncate(s).Add(s).Sub(now) - time.Microsecond) // still in the same second
		k.under(large, fixed).mustTake(4)
		k.after(time.Microsecond).under(large, fixed).mustTake(5)
		shown := k.inspect(stint.Claim{Subject: k.subject, Limits: []stint.Limit{large, fixed}})
		end := now.Truncate(s).Add(s).Sub(epoch)
		k.wantEntries(shown.Windows[0], fmt.Sprintf("%v-%v:7", end, end+125*s),
			fmt.Sprintf("%v-%v:5", end+s, end+126*s))
		start := now.Truncate(time.Minute).Sub(epoch)
		k.wantEntries(shown.Windows[1], fmt.Sprintf("%v-%v:12", start, start+time.Minute))
	}),
	clocked("bookings are shown at their time, and leases at their end", limits{stint.PerSecond(4)}, func(k *tester) {
		now := k.Clock.Now().Sub(epoch)
		k.wantCharged(k.lease(1, 100*ms), 1)
		k.mustTake(3)
		k.wantRetry(k.reserve(2, 0), s)
		k.wantEntries(k.window(),
			fmt.Sprintf("%v-%v:3", now, now+s), fmt.Sprintf("%v-%v:1", now+100*ms, now+1100*ms),
			fmt.Sprintf("%v-%v:2", now+s, now+2*s+grace))
		k = k.other(fixed(2, time.Minute))
		k.mustTake(2)
		k.wantAllowed(k.reserve(1, 0), true)
		start := k.Clock.Now().Truncate(time.Minute).Sub(epoch)
		k.wantEntries(k.window(), fmt.Sprintf("%v-%v:2", start, start+time.Minute),
			fmt.Sprintf("%v-%v:1", start+time.Minute, start+2*time.Minute))
	}),
	clocked("the oldest entries are left out if there are too many", nil, func(k *tester) {
		const more = 5
		places := stint.Concurrency(driver.MaxEntries+more, time.Hour)
		for range driver.MaxEntries + more {
			k.under(places).mustTake(1)
		}
		w := k.under(places).window()
		if len(w.Entries) != driver.MaxEntries || w.LeftOut != more || w.Used != driver.MaxEntries+more {
			k.Errorf("%d entries, %d left out of %d; want %d, %d", len(w.Entries), w.LeftOut, w.Used,
				driver.MaxEntries, more)
		}
		log := stint.Per(1, ms)
		k = k.other()
		k.under(log).mustTake(1)
		for range driver.MaxBookings {
			k.under(log).reserve(1, 0)
		}
		w = k.under(log).window()
		if len(w.Entries) != driver.MaxEntries || w.LeftOut != 1 || w.Used != driver.MaxBookings+1 {
			k.Errorf("%d entries, %d left out of %d; want %d, 1", len(w.Entries), w.LeftOut, w.Used,
				driver.MaxEntries)
		}
	}),
	clocked("bans in force are listed, the longest first", nil, func(k *tester) {
		now, mark := k.Clock.Now(), k.newSubject()
		mine := func(n int) (list []string) {
			k.Helper()
			found, err := k.inspector().Bans(k.Context(), n)
			if err != nil {
				k.Fatalf("bans: %v", err)
			}
			if len(found) > n {
				k.Errorf("%d bans, want at most %d", len(found), n)
			}
			for _, b := range found {
				if name, ok := strings.CutPrefix(b.Subject, mark); ok {
					list = append(list, fmt.Sprintf("%s %v %d", name, b.Until.Sub(now), b.Level))
				}
			}
			return list
		}
		want := func(n int, want ...string) {
			k.Helper()
			if got := mine(n); strings.Join(got, ", ") != strings.Join(want, ", ") {
				k.Errorf("bans are %q, want %q", got, want)
			}
		}
		const all = 1 << 20
		want(all)
		odd := "{a}: \x00\xff%*~"
		k.as(mark + odd).ban(stint.MaxWindow - time.Hour)
		k.as(mark + "b").ban(stint.MaxWindow)
		k.as(mark + "c").ban(time.Minute)
		k.as(mark + "d").strike(policy(1))
		k.as(mark + "e").strike(policy(2))
		k.as(mark+"f", stint.PerHour(1)).mustTake(1)
		longest := (stint.MaxWindow).String()
		want(all, "b "+longest+" 0", odd+" "+(stint.MaxWindow-time.Hour).String()+" 0", "c 1m0s 0", "d 1m0s 1")
		want(0)
		if got, err := k.inspector().Bans(k.Context(), 1); err != nil || len(got) != 1 ||
			got[0].Until.Sub(now) < stint.MaxWindow {
			k.Errorf("the longest is %v (%v), want one of at least %v", got, err, stint.MaxWindow)
		}
		k.after(time.Minute).as(mark + "b").unban()
		want(all, odd+" "+(stint.MaxWindow-time.Hour).String()+" 0")
		k.as(mark + odd).unban()
		if _, err := k.inspector().Bans(canceled(k.Context()), all); err == nil {
			k.Error("no error although the context has ended")
		}
	}),
	exact("scopes in which something is counted are listed", nil, func(k *tester) {
		inspector := k.inspector()
		want := func(want ...string) {
			k.Helper()
			got, err := inspector.Scopes(k.Context(), k.subject)
			if err != nil {
				k.Fatalf("scopes: %v", err)
			}
			if !slices.Equal(got, want) {
				k.Errorf("scopes are %q, want %q", got, want)
			}
		}
		limits := []stint.Limit{
			stint.PerHour(5), stint.TokenBucket(5, 1, time.Minute), stint.Concurrency(5, time.Hour),
			fixed(5, time.Hour),
		}
		take := func(of, scope string, limits ...stint.Limit) stint.Decision {
			k.Helper()
			r := k.as(of, limits...).request(2)
			r.Claims[0].Scope, r.ID = scope, "request"
			return k.mustDecide(r)
		}
		want()
		k.ban(time.Hour)
		want() // a ban does not belong to a scope
		k.unban()
		odd := "{a}: \x00\xff%*~/é"
		for i, scope := range []string{"item:2", odd, "seen", "~"} {
			take(k.subject, scope, limits[i])
		}
		k.settle(take(k.subject, "item:10", limits...), 1)
		take(k.subject+"0", "of another", limits...)
		take(k.subject[:len(k.subject)-1], "of another", limits...)
		want("item:10", "item:2", "seen", odd, "~")
		take(k.subject, "", limits...)
		want("", "item:10", "item:2", "seen", odd, "~")
		k.command(stint.Command{Kind: stint.CommandReset, Subject: k.subject, Scope: "item:10", Limits: limits})
		k.command(stint.Command{Kind: stint.CommandReset, Subject: k.subject, Scope: odd, Limits: limits})
		k.under(limits...).reset()
		want("item:2", "seen", "~")

		for _, none := range []string{"", strings.Repeat("x", stint.MaxSubject+1)} {
			_, err := inspector.Scopes(k.Context(), none)
			k.wantInvalid(fmt.Sprintf("a subject of %d bytes", len(none)), err)
		}
		if _, err := inspector.Scopes(canceled(k.Context()), k.subject); err == nil {
			k.Error("no error although the context has ended")
		}
	}),
	exact("some scopes are left out if there are too many", limits{stint.PerHour(1)}, func(k *tester) {
		inspector := k.inspector()
		for i := range driver.MaxScopes + 5 {
			r := k.request(1)
			r.Claims[0].Scope = fmt.Sprint("item:", i)
			k.mustDecide(r)
		}
		first, err := inspector.Scopes(k.Context(), k.subject)
		if err != nil || len(first) != driver.MaxScopes || !slices.IsSorted(first) ||
			len(slices.Compact(first)) != driver.MaxScopes {
			k.Fatalf("%d scopes (%v), want %d that differ, in order", len(first), err, driver.MaxScopes)
		}
		for _, scope := range first {
			k.command(stint.Command{Kind: stint.CommandReset, Subject: k.subject, Scope: scope, Limits: k.limits})
		}
		if rest, err := inspector.Scopes(k.Context(), k.subject); err != nil || len(rest) != 5 {
			k.Errorf("%d scopes (%v) once those are reset, want the other 5", len(rest), err)
		}
	}),
	everyStore("invalid claims are not inspected", nil, func(k *tester) {
		inspector := k.inspector()
		l := stint.PerHour(1)
		for name, c := range map[string]stint.Claim{
			"no subject":    {Limits: []stint.Limit{l}},
			"a long scope":  {Subject: "a", Scope: strings.Repeat("x", stint.MaxSubject+1)},
			"a limit twice": {Subject: "a", Limits: []stint.Limit{l, stint.PerHour(2)}},
			"a wrong limit": {Subject: "a", Limits: []stint.Limit{{Max: -1}}},
		} {
			_, err := inspector.Inspect(k.Context(), c)
			k.wantInvalid(name, err)
		}
		if _, err := inspector.Inspect(canceled(k.Context()), stint.Claim{Subject: "a"}); err == nil {
			k.Error("no error although the context has ended")
		}
	}),
}
