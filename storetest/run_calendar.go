package storetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stint-limiter/stint"
)

// until returns the time from now until the given hour, in UTC.
func (k *tester) until(year int, month time.Month, day, hour int) time.Duration {
	return time.Date(year, month, day, hour, 0, 0, 0, time.UTC).Sub(k.Clock.Now())
}

// wantReset checks the time until the first limit is unused.
func (k *tester) wantReset(d stint.Decision, want time.Duration) {
	k.Helper()
	if got := d.Usages()[0].ResetAfter; got != want {
		k.Errorf("%s: reset after %v, want %v", k.limit(), got, want)
	}
}

// calendars are limits with every kind of period, in UTC and ten other zones. The zones are up to
// 19 hours apart. Some have daylight saving time, which begins on different days and shifts the
// clock by different amounts.
var calendars = limits{
	stint.Daily(7), stint.Daily(7).In("Pacific/Kiritimati"), stint.Daily(7).In("America/St_Johns"),
	stint.Daily(7).In("Australia/Lord_Howe"),
	stint.Weekly(7).From(time.Sunday), stint.Weekly(7).In("Asia/Kathmandu"), stint.Weekly(7).In("Africa/Casablanca"),
	stint.Monthly(7), stint.Monthly(7).On(31).In("Europe/Berlin"), stint.Monthly(7).On(17).In("America/New_York"),
	stint.Monthly(7).On(29).In("America/Havana"), stint.Monthly(7).On(30).In("Asia/Beirut"),
	stint.Yearly(7), stint.Yearly(7).In("Asia/Tokyo"),
}

// In each test, the clock starts on Wednesday, March 4, 2026, at 05:06:07.891011 UTC.
var periods = []check{
	clocked("a quota is full until its period ends", nil, func(k *tester) {
		for _, c := range []struct {
			limit stint.Limit
			end   time.Duration
		}{
			{stint.Daily(2), k.until(2026, 3, 5, 0)},
			{stint.Daily(2).In("Asia/Tokyo"), k.until(2026, 3, 4, 15)},
			{stint.Weekly(2), k.until(2026, 3, 9, 0)},
			{stint.Weekly(2).From(time.Sunday), k.until(2026, 3, 8, 0)},
			// Berlin is on daylight saving time by then.
			{stint.Monthly(2).In("Europe/Berlin"), k.until(2026, 3, 31, 22)},
			{stint.Monthly(2).On(17), k.until(2026, 3, 17, 0)},
			{stint.Monthly(2).On(31), k.until(2026, 3, 31, 0)},
			{stint.Yearly(2), k.until(2027, 1, 1, 0)},
		} {
			k := k.other(c.limit)
			k.mustTake(1)
			d := k.mustTake(1)
			k.wantReset(d, c.end)
			k.wantRetry(k.mustDeny(1), c.end)
		}
	}),
	clocked("entries of periods that other calendars have begun", limits{stint.Monthly(9)}, func(k *tester) {
		k.pass(k.until(2026, 3, 30, 0))
		k.mustTake(1)
		other := k.under(stint.Monthly(9).On(17))
		k.wantCharged(other.lease(2, 11*24*time.Hour), 2)
		k.wantCharged(other.lease(3, 32*24*time.Hour), 3)
		if inspectorOf(k.Context(), k.Store) == nil {
			return
		}
		day := func(month time.Month, day int) time.Duration {
			return time.Date(2026, month, day, 0, 0, 0, 0, time.UTC).Sub(epoch)
		}
		k.wantEntries(k.window(), fmt.Sprintf("%v-%v:1", day(3, 1), day(4, 1)),
			fmt.Sprintf("%v-%v:2", day(4, 1), day(4, 17)), fmt.Sprintf("%v-%v:3", day(4, 1), day(5, 18)))
	}),
	clocked("usage of a period does not count in the next", calendars, func(k *tester) {
		for range 3 {
			k.wantUsed(k.mustTake(7), 7)
			d := k.mustDeny(1)
			k.Clock.Advance(d.RetryAfter - us)
			k.wantRetry(k.mustDeny(1), us)
			k.Clock.Advance(us)
		}
	}),
	clocked("a quota and another limit are charged together or not at all", nil, func(k *tester) {
		k = k.under(stint.PerMinute(2), stint.Monthly(3))
		k.wantUsed(k.mustTake(2), 2, 2)
		k.wantUsed(k.mustDeny(1), 2, 2)
		k.after(time.Minute).mustTake(1)
		d := k.mustDeny(1)
		k.wantUsed(d, 1, 3)
		k.wantRetry(d, k.until(2026, 4, 1, 0))
	}),
	clocked("the first charge of a period determines its end for all", nil, func(k *tester) {
		berlin, tokyo := k.under(stint.Daily(3).In("Europe/Berlin")), k.under(stint.Daily(3).In("Asia/Tokyo"))
		k.wantReset(berlin.mustTake(1), k.until(2026, 3, 4, 23))
		k.wantReset(tokyo.mustTake(2), k.until(2026, 3, 4, 23))
		k.Clock.Advance(k.until(2026, 3, 4, 15)) // a day begins in Tokyo
		k.wantRetry(tokyo.mustDeny(1), k.until(2026, 3, 4, 23))
		k.Clock.Advance(k.until(2026, 3, 4, 23))
		k.wantReset(tokyo.mustTake(3), k.until(2026, 3, 5, 15))
		k.wantRetry(berlin.mustDeny(1), k.until(2026, 3, 5, 15))
	}),
	clocked("a refund gives back in its own period only", nil, func(k *tester) {
		berlin, tokyo := k.under(stint.Daily(3).In("Europe/Berlin")), k.under(stint.Daily(3).In("Asia/Tokyo"))
		k.under(stint.PerDay(9)).mustTake(1) // keeps the state alive
		k.Clock.Advance(k.until(2026, 3, 4, 16))
		first := tokyo.mustTake(2) // counts until 15:00 of the next day
		k.wantApplied(tokyo.settle(first, 1), true)
		k.wantUsed(tokyo.peek(1), 1)
		k.Clock.Advance(k.until(2026, 3, 5, 1))
		second := berlin.mustTake(2)
		k.Clock.Advance(k.until(2026, 3, 5, 15))
		berlin.mustTake(3)                             // counts until 23:00
		k.wantApplied(berlin.settle(second, 0), false) // although it is the same day in Berlin
		k.wantUsed(berlin.peek(1), 3)
	}),
	clocked("a clock that steps back ends no period early", nil, func(k *tester) {
		k = k.under(stint.Daily(3))
		k.mustTake(3)
		k.Clock.Advance(-10 * time.Minute)
		k.wantRetry(k.mustDeny(1), k.until(2026, 3, 5, 0))
		k.Clock.Advance(k.until(2026, 3, 5, 0))
		k.mustTake(3)
	}),
	clocked("a clock that steps back into a period does not bring back its charges", nil, func(k *tester) {
		utc, tokyo := k.under(stint.Daily(3)), k.under(stint.Daily(3).In("Asia/Tokyo"))
		first, second := tokyo.mustTake(1), utc.mustTake(1)
		k.Clock.Advance(k.until(2026, 3, 4, 15))
		utc.mustTake(3)
		k.Clock.Advance(-us)
		k.wantApplied(tokyo.settle(first, 0), false)
		tokyo.giveBack(1)
		k.Clock.Advance(us)
		k.wantApplied(utc.settle(second, 0), false) // it belongs to the period that ended in Tokyo
		k.wantUsed(utc.peek(1), 3)
	}),
	clocked("a clock that steps back brings back no charges if the next period has none", nil, func(k *tester) {
		utc, tokyo := k.under(stint.Daily(3)), k.under(stint.Daily(3).In("Asia/Tokyo"))
		first, second := tokyo.mustTake(1), utc.mustTake(1)
		k.Clock.Advance(k.until(2026, 3, 4, 15))
		k.wantApplied(utc.settle(utc.mustTake(3), 0), true)
		k.Clock.Advance(-us)
		tokyo.mustDeny(4) // denied, but the step back is stored
		k.wantApplied(tokyo.settle(first, 0), false)
		k.Clock.Advance(us)
		utc.mustTake(3)
		k.wantApplied(utc.settle(second, 0), false)
		k.wantUsed(utc.peek(1), 3)
	}),
	clocked("a clock that was years ahead locks no caller out", nil, func(k *tester) {
		k = k.under(stint.Monthly(3))
		k.Clock.Advance(4 * 366 * 24 * time.Hour)
		k.mustTake(2)
		k.Clock.Advance(-4 * 366 * 24 * time.Hour)
		k.wantUsed(k.mustTake(1), 3)
		k.wantRetry(k.mustDeny(1), k.until(2026, 4, 1, 0))
		k.after(k.until(2026, 4, 1, 0)).mustTake(3)
	}),
	clocked("a booking is in this period or the next", nil, func(k *tester) {
		k = k.under(stint.Daily(1))
		k.mustTake(1)
		k.wantRetry(k.reserve(1, 0), k.until(2026, 3, 5, 0))
		d := k.reserve(1, 0)
		k.wantAllowed(d, false)
		k.wantRetry(d, k.until(2026, 3, 6, 0))
	}),
	clocked("no more than a quota between two resets, in years of any calendars", nil, func(k *tester) {
		byPeriod := map[time.Duration]limits{}
		for _, l := range calendars {
			byPeriod[l.Window] = append(byPeriod[l.Window], l)
		}
		for _, same := range byPeriod {
			k.other().anyCalendar(same)
		}
	}),
}

// anyCalendar charges one subject for about 50 periods. It makes each request under one of the
// given limits, chosen at random, while the clock is up to ten minutes ahead. It checks that the
// calendars agree on the end of each period, and that no period grants more than the capacity.
func (k *tester) anyCalendar(same limits) {
	var end time.Time // end of the current period
	granted, capacity := int64(0), same[0].Max
	rand := rand.New(rand.NewPCG(1, uint64(same[0].Window)))
	for range 400 {
		k := k.under(same[rand.IntN(len(same))])
		apart := time.Duration(rand.Int64N(int64(10 * time.Minute))).Truncate(us)
		k.Clock.Advance(apart)
		now := k.Clock.Now()
		if !now.Before(end) {
			granted, end = 0, time.Time{}
		}
		d := k.take(1 + rand.Int64N(3))
		if reset := now.Add(d.Usages()[0].ResetAfter); end.IsZero() {
			end = reset
		} else if !reset.Equal(end) {
			k.Fatalf("%s at %v: the period that was to end at %v ends at %v", k.limit(), now, end, reset)
		}
		if d.Allowed {
			granted += d.Charge.Claims()[0].Cost
		}
		if granted > capacity {
			k.Fatalf("%s at %v: %d of %d before the reset at %v", k.limit(), now, granted, capacity, end)
		}
		if !d.Allowed && (d.RetryAfter != end.Sub(now) || d.RetryAfter > k.limit().Window+26*time.Hour) {
			k.Fatalf("%s at %v: denied for %v, want until %v", k.limit(), now, d.RetryAfter, end)
		}
		k.Clock.Advance(-apart)
		k.Clock.Advance(time.Duration(rand.Int64N(int64(k.limit().Window) / 4)).Truncate(us))
	}
}
