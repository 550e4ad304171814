package calendar

import (
	"fmt"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stint-limiter/stint/internal/testkit"
)

// zoneNames have every kind of change: none, at night, at midnight in both directions, by half an
// hour, a minute after midnight, and a date that is missing.
var zoneNames = []string{"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe",
	"America/St_Johns", "Pacific/Apia", "America/Havana", "Africa/Casablanca", "Asia/Beirut", "Asia/Kathmandu"}

// TestEnds compares all ends of years with a slow reference, which walks through time minute by
// minute and looks at the local date: twelve years with known changes of the clocks, and three with a
// leap year after 2037, where only the rule for them is known.
func TestEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("walks through years minute by minute")
	}
	for _, zone := range zoneNames {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			testEnds(t, zone, 2005, 2017)
			testEnds(t, zone, 2039, 2042)
		})
	}
}

func testEnds(t *testing.T, zone string, from, to int) {
	loc := testkit.Must(Location(zone))(t)
	calendars := []Calendar{{Day, 0, zone}, {Week, 0, zone}, {Week, 7, zone}, {Week, 3, zone}, {Month, 0, zone},
		{Month, 17, zone}, {Month, 29, zone}, {Month, 30, zone}, {Month, 31, zone}, {Year, 0, zone}}
	boundaries := make([][]int64, len(calendars))
	seen := map[civil]bool{} // dates: only the first instant of each begins anything
	var last civil
	first := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC)
	for at := first; at.Year() < to; at = at.Add(time.Minute) {
		local := at.In(loc)
		if hour := local.Hour(); hour > 1 && hour < 22 { // nothing begins there
			at = at.Add(time.Hour - time.Minute)
			continue
		}
		y, m, d := local.Date()
		day := civil{y, m, d}
		if day == last || seen[day] {
			continue
		}
		last, seen[day] = day, true
		for i, c := range calendars {
			if begins(c, local) {
				boundaries[i] = append(boundaries[i], at.UnixMicro())
			}
		}
	}
	for i, c := range calendars {
		b := boundaries[i][1:] // the first may have begun before
		for k := range len(b) - 2 {
			want := Ends{b[k], b[k+1], b[k+2]}
			for _, at := range []int64{b[k], b[k] + 1, (b[k] + b[k+1]) / 2, b[k+1] - 1} {
				if got := c.around(at); got != want {
					t.Fatalf("%+v at %v: got %v, want %v", c, time.UnixMicro(at).In(loc), show(got, loc),
						show(want, loc))
				}
			}
		}
	}
}

// civil is a date.
type civil struct {
	year  int
	month time.Month
	day   int
}

// begins reports whether a period begins with a local date, or with the date before it if that is
// missing.
func begins(c Calendar, local time.Time) bool {
	y, m, d := local.Date()
	is := func(y int, m time.Month, d int) bool {
		start := max(int(c.Start), 1)
		switch c.Period {
		case Week:
			weekday := int(date(y, m, d).Weekday())
			return weekday == start%7
		case Month:
			return d == start || d < start && d == daysIn(y, m)
		case Year:
			return d == 1 && m == 1
		}
		return true
	}
	afterMissing := c.Zone == "Pacific/Apia" && local.Format(time.DateOnly) == "2011-12-31"
	return is(y, m, d) || afterMissing && is(y, m, d-1)
}

func show(e Ends, loc *time.Location) string {
	f := func(at int64) string { return time.UnixMicro(at).In(loc).Format(time.RFC3339) }
	return fmt.Sprint(f(e.Last), f(e.This), f(e.Next))
}

func TestLocation(t *testing.T) {
	for _, zone := range []string{"Local", "Berlin", "../etc/passwd", "europe/berlin ", "Europe//Berlin",
		"Europe/./Berlin", "./Europe/Berlin"} {
		if _, err := Location(zone); err == nil {
			t.Errorf("%q: no error", zone)
		}
	}
}
