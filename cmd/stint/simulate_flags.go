package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

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

// shareFlag is a percentage as a fraction: "99.9%" is 0.999.
type shareFlag float64

// UnmarshalText reads a number from 0 to 100, followed by a percent sign.
func (s *shareFlag) UnmarshalText(text []byte) error {
	digits, ok := strings.CutSuffix(string(text), "%")
	percent, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	switch {
	case err != nil || math.IsNaN(percent):
		return fmt.Errorf("invalid share %q; want one such as 99.9%%", text)
	case !ok && percent > 0 && percent <= 1:
		return fmt.Errorf("%q has no percent sign; want %s%%", text, strconv.FormatFloat(100*percent, 'g', 10, 64))
	case !ok:
		return fmt.Errorf("%q has no percent sign; want %s%%", text, digits)
	case percent < 0 || percent > 100:
		return fmt.Errorf("invalid share %q; want 0%% to 100%%", text)
	}
	*s = shareFlag(percent / 100)
	return nil
}
