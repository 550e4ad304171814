// Package calendar computes when days, weeks, months and years begin in a time zone.
package calendar

import (
	"fmt"
	"path"
	"sync"
	"time"
)

// These constants are the periods, each identified by its maximum length. The lengths ignore clock
// changes, such as the change to daylight saving time.
const (
	Day   = 24 * time.Hour
	Week  = 7 * Day
	Month = 31 * Day
	Year  = 366 * Day
)

// Calendar divides time into periods. A period begins at the first instant of a local date. If the
// clocks are set back across midnight, so that midnight occurs twice, the period begins at the
// earlier midnight. If they are set forward across midnight, it begins at the moment of the change.
type Calendar struct {
	// Period is Day, Week, Month or Year.
	Period time.Duration
	// Start is the day on which a week or month begins. For weeks, it is the weekday, from 1 for
	// Monday to 7 for Sunday. For months, it is the day of the month. If a calendar month is too
	// short for that day, the period begins on its last day. 0 means 1. Days and years have no
	// Start.
	Start int8
	// Zone is the name of an IANA time zone; "" is UTC.
	Zone string
}

// Ends holds the ends of three periods, in microseconds since the Unix epoch. The field This is the
// end of the period that contains a given time. Last is the end of the period before it. Next is
// the end of the period after it.
type Ends struct{ Last, This, Next int64 }

var (
	zones sync.Map // *time.Location by name
	mu    sync.RWMutex
	ends  = map[Calendar]Ends{} // the last result of Around for each calendar
)

// Location returns a time zone by its name. "Local" is not a valid name, because it would differ
// between processes.
func Location(zone string) (*time.Location, error) {
	if zone == "" {
		return time.UTC, nil
	}
	if loc, ok := zones.Load(zone); ok {
		return loc.(*time.Location), nil
	}
	loc, err := time.LoadLocation(zone)
	// Refuse paths that are not clean, such as Europe//Berlin, because each spelling would be
	// cached.
	if err != nil || zone == "Local" || path.Clean(zone) != zone {
		return nil, fmt.Errorf("unknown time zone %q; want a name such as Europe/Berlin", zone)
	}
	zones.Store(zone, loc)
	return loc, nil
}

// Around returns the ends of the periods around the time `at`, in microseconds since the Unix
// epoch. An unknown zone counts as UTC.
func (c Calendar) Around(at int64) Ends {
	mu.RLock()
	e, ok := ends[c]
	mu.RUnlock()
	if !ok || at < e.Last || at >= e.This {
		e = c.around(at)
		mu.Lock()
		ends[c] = e
		mu.Unlock()
	}
	return e
}

func (c Calendar) around(at int64) Ends {
	loc, err := Location(c.Zone)
	if err != nil {
		loc = time.UTC
	}
	y, m, d := time.UnixMicro(at).In(loc).Date()
	begin := func(n int) int64 { return firstInstant(c.begin(y, m, d, n), loc) }
	n := 0
	for begin(n) > at { // the clocks were set back to an earlier date
		n--
	}
	for begin(n+1) <= at {
		n++
	}
	e := Ends{Last: begin(n), This: begin(n + 1)}
	for n += 2; e.Next <= e.This; n++ { // a zone may skip a whole date
		e.Next = begin(n)
	}
	return e
}

// begin returns the first date of a period, as midnight in UTC. The period is the nth one after the
// period that contains the date y-m-d.
func (c Calendar) begin(y int, m time.Month, d, n int) time.Time {
	start := max(int(c.Start), 1)
	switch c.Period {
	case Week:
		since := (int(date(y, m, d).Weekday()) + 7 - start) % 7
		return date(y, m, d-since+7*n)
	case Month:
		if d < min(start, daysIn(y, m)) {
			n--
		}
		first := date(y, m+time.Month(n), 1)
		return first.AddDate(0, 0, min(start, daysIn(first.Year(), first.Month()))-1)
	case Year:
		return date(y+n, time.January, 1)
	default:
		return date(y, m, d+n)
	}
}

func date(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }

func daysIn(y int, m time.Month) int { return date(y, m+1, 0).Day() }

func firstInstant(date time.Time, loc *time.Location) int64 {
	for t := date.Add(-36 * time.Hour).In(loc); ; {
		from, to := t.ZoneBounds()
		if !to.IsZero() && !to.After(t) {
			// For zones with a yearly rule, package time may end a leap year a day early.
			to = to.AddDate(0, 0, 1)
		}
		_, offset := t.Zone()
		midnight := date.Add(-time.Duration(offset) * time.Second)
		if !from.IsZero() && midnight.Before(from) {
			midnight = from // midnight was skipped
		}
		if to.IsZero() || midnight.Before(to) {
			return midnight.UnixMicro()
		}
		t = to
	}
}
