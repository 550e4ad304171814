// Package calendar computes when days, weeks, months and years begin in a time zone.
package calendar

import (
	"fmt"
	"path"
	"sync"
	"time"
)

// The lengths of periods, which also identify them. They are maximum lengths, not counting changes
// of the clocks.
const (
	Day   = 24 * time.Hour
	Week  = 7 * Day
	Month = 31 * Day
	Year  = 366 * Day
)

// Calendar divides time into periods. A period begins at the first instant of a local date. If the
// clocks are put back over midnight, that is the earlier midnight; if they are put forward over
// midnight, it is the moment of the change.
type Calendar struct {
	// Period is Day, Week, Month or Year.
	Period time.Duration
	// Start is the weekday on which weeks begin, from 1 for Monday to 7 for Sunday, or the day on
	// which months begin; a month that is too short for that day begins on its last day. 0 means 1.
	// Days and years have no Start.
	Start int8
	// Zone is the name of an IANA time zone; "" is UTC.
	Zone string
}

// Ends are the ends of the periods around an instant, in microseconds since the Unix epoch: of the
// previous period, of the one that contains the instant, and of the next one.
type Ends struct{ Last, This, Next int64 }

var (
	mu    sync.RWMutex
	zones = map[string]*time.Location{}
	ends  = map[Calendar]Ends{} // of the last answer
)

// Location returns a time zone by its name. "Local" is not a valid name, because it would differ
// between processes.
func Location(zone string) (*time.Location, error) {
	if zone == "" {
		return time.UTC, nil
	}
	mu.RLock()
	loc, ok := zones[zone]
	mu.RUnlock()
	if ok {
		return loc, nil
	}
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" || path.Clean(zone) != zone { // one file has many names, and the cache keeps each
		return nil, fmt.Errorf("unknown time zone %q; want a name such as Europe/Berlin", zone)
	}
	mu.Lock()
	zones[zone] = loc
	mu.Unlock()
	return loc, nil
}

// Around returns the ends around an instant. An unknown zone counts as UTC.
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
	for begin(n) > at { // the clocks were put back to an earlier date
		n--
	}
	for begin(n+1) <= at {
		n++
	}
	e := Ends{Last: begin(n), This: begin(n + 1)}
	for n += 2; e.Next <= e.This; n++ { // a date may be missing
		e.Next = begin(n)
	}
	return e
}

// begin returns the first date of the nth period after the period of a date, as a time in UTC.
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

// firstInstant returns the first instant of a date in a location.
func firstInstant(date time.Time, loc *time.Location) int64 {
	for t := date.Add(-36 * time.Hour).In(loc); ; {
		from, to := t.ZoneBounds()
		if !to.IsZero() && !to.After(t) {
			to = to.AddDate(0, 0, 1) // package time ends a leap year a day early if it knows only a rule for the zone
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
