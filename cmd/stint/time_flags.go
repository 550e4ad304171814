package main

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/figures"
)

// durationFlag is a duration, such as "30s", "10m", "1h30m" or "7d".
type durationFlag time.Duration

// spelledOut matches durations with spelled-out units, such as "30 seconds".
var spelledOut = regexp.MustCompile(`^(\d+) *(s|m|h|d|w)[a-z]*$`)

// UnmarshalText reads a duration from one millisecond to one year.
func (l *durationFlag) UnmarshalText(text []byte) error {
	if len(text) > 0 && text[0] >= '0' && text[0] <= '9' {
		if limit, err := stint.ParseLimit("1/" + string(text)); err == nil {
			*l = durationFlag(limit.Window)
			return nil
		}
	}
	hint := ""
	if parts := spelledOut.FindSubmatch(text); parts != nil {
		n, unit := string(parts[1]), string(parts[2])
		if weeks, err := strconv.Atoi(n); unit == "w" && err == nil && weeks < 52 {
			n, unit = strconv.Itoa(7*weeks), "d"
		}
		if limit, err := stint.ParseLimit("1/" + n + unit); err == nil {
			hint = fmt.Sprintf(" (did you mean %s?)", figures.Length(limit.Window))
		}
	}
	return fmt.Errorf("invalid duration %q; want one such as 30s, 10m, 1h30m or 7d, at most a year%s",
		text, hint)
}

func readDuration(k *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := k.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		hint := ""
		if seconds, err := time.ParseDuration(text + "s"); err == nil {
			hint = fmt.Sprintf(" (did you mean %s?)", figures.Exact(seconds))
		}
		return fmt.Errorf("invalid duration %q; want one such as 500ms, 10s or 1m30s%s", text, hint)
	}
	target.SetInt(int64(d))
	return nil
}

// inSeconds formats a number of seconds as a duration, or as "never" if it is negative.
func inSeconds(seconds float64) string {
	if seconds < 0 {
		return "never"
	}
	return figures.Length(time.Duration(seconds * float64(time.Second)))
}

// momentLayouts lists the layouts of a date and a time.
var momentLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04"}

// parseTime parses a text in the first of the layouts that fits. Without a zone, it is in the given
// one.
func parseTime(text string, zone *time.Location, layouts []string) (at time.Time, ok bool) {
	for _, layout := range layouts {
		if at, err := time.ParseInLocation(layout, text, zone); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// timeFlag is a point in time, such as "2026-03-02", "2026-03-02T15:04:05" or
// "2026-03-02T15:04:05+01:00".
type timeFlag struct{ time.Time }

// UnmarshalText reads a date, or a date and a time. Without a zone, they are in UTC.
func (t *timeFlag) UnmarshalText(text []byte) error {
	at, ok := parseTime(string(text), time.UTC, append(momentLayouts, time.DateOnly))
	if !ok {
		return fmt.Errorf("invalid time %q; want one such as 2026-03-02, 2026-03-02T15:04:05 or 2026-03-02T15:04:05+01:00",
			text)
	}
	t.Time = at
	return nil
}

// untilFlag is the time at which something ends, such as "friday", "2026-11-20",
// "2026-11-20T18:00", "36h" or "never". The zero time means never.
type untilFlag time.Time

// UnmarshalText reads a day, a time, or a duration from now. A day means the midnight at its end.
func (u *untilFlag) UnmarshalText(text []byte) error {
	at, err := parseUntil(string(text), time.Now())
	*u = untilFlag(at)
	return err
}

// parseUntil parses the time at which something ends. Durations and weekdays count from now; times
// without a zone are in the zone of now. A day means the end of that day; "never" gives the zero
// time.
func parseUntil(text string, now time.Time) (time.Time, error) {
	day := func(days int) time.Time {
		return time.Date(now.Year(), now.Month(), now.Day()+days+1, 0, 0, 0, 0, now.Location())
	}
	word := strings.ToLower(text)
	switch word {
	case "never":
		return time.Time{}, nil
	case "today":
		return day(0), nil
	case "tomorrow":
		return day(1), nil
	}
	for n := range 7 {
		at := (now.Weekday() + time.Weekday(n)) % 7
		if name := strings.ToLower(at.String()); word == name || word == name[:3] {
			return day(n), nil
		}
	}
	at, ok := parseTime(text, now.Location(), []string{time.DateOnly})
	if ok {
		at = at.AddDate(0, 0, 1)
	} else if at, ok = parseTime(text, now.Location(), momentLayouts); !ok {
		var length durationFlag
		if length.UnmarshalText([]byte(text)) != nil {
			return at, fmt.Errorf("invalid time %q; want a day, a time or a duration, such as friday, tomorrow, 2026-11-20, 2026-11-20T18:00, 36h, 7d or never",
				text)
		}
		at = now.Add(time.Duration(length))
	}
	if !at.After(now) {
		return at, fmt.Errorf("%q is in the past; want a later day or time", text)
	}
	return at.Truncate(time.Second), nil
}
