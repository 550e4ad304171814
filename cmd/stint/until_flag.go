package main

import (
	"fmt"
	"strings"
	"time"
)

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
