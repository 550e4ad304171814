package main

import (
	"cmp"
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

// durationFlag is a duration of at least a millisecond, in whole microseconds.
type durationFlag time.Duration

// UnmarshalText parses a duration that [parseDuration] accepts, of at least a millisecond and in
// whole microseconds.
func (f *durationFlag) UnmarshalText(text []byte) error {
	d, err := parseDuration(string(text))
	if err == nil && (d < time.Millisecond || d%time.Microsecond != 0) {
		return fmt.Errorf("invalid duration %q; want at least 1ms, in whole microseconds", text)
	}
	*f = durationFlag(d)
	return err
}

// readDuration parses the value of a flag with the type [time.Duration]. It accepts 0, unlike
// durationFlag.
func readDuration(k *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := k.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := parseDuration(text)
	target.SetInt(int64(d))
	return err
}

// spelledOut matches durations with spelled-out units, such as "30 seconds", or without a unit.
var spelledOut = regexp.MustCompile(`^(\d+) *(?:(ms|s|m|h|d|w)(?:ecs?|econds?|ins?|inutes?|rs?|ours?|ays?|ks?|eeks?)?)?$`)

// parseDuration parses a duration from 0 to a year, such as "500ms", "30s", "1h30m" or "7d".
func parseDuration(text string) (time.Duration, error) {
	if d, ok := parseLength(text); ok {
		return d, nil
	}
	hint := ""
	if parts := spelledOut.FindStringSubmatch(text); parts != nil {
		n, unit := parts[1], cmp.Or(parts[2], "s")
		if weeks, err := strconv.Atoi(n); unit == "w" && err == nil && weeks < 53 {
			n, unit = strconv.Itoa(7*weeks), "d"
		}
		if _, ok := parseLength(n + unit); ok {
			hint = fmt.Sprintf(" (did you mean %s?)", n+unit)
		}
	}
	return 0, fmt.Errorf("invalid duration %q; want one such as 500ms, 30s, 1h30m or 7d, at most a year%s", text, hint)
}

// parseLength parses a number of days, a duration in Go's notation, or both, such as "1d12h".
func parseLength(text string) (d time.Duration, ok bool) {
	rest := text
	if days, after, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if d, rest = time.Duration(n)*24*time.Hour, after; err != nil || d > stint.MaxWindow {
			return 0, false
		}
		if rest == "" {
			return d, true
		}
	}
	more, err := time.ParseDuration(rest)
	return d + more, err == nil && 0 <= more && more <= stint.MaxWindow-d
}

// inSeconds formats a number of seconds as a duration, or as "never" if it is negative.
func inSeconds(seconds float64) string {
	if seconds < 0 {
		return "never"
	}
	return figures.Length(time.Duration(seconds * float64(time.Second)))
}

var momentLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04"}

// parseTime parses text with the first layout that fits. A time without a zone is in the given
// zone.
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

// UnmarshalText parses a date, or a date and a time. Without a zone, they are in UTC.
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

// UnmarshalText parses a day, a time, or a duration from now. A day means the midnight at its end.
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
