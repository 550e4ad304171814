package main

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/stint-limiter/stint"
)

// lengthFlag is how long something lasts: "30s", "10m", "1h30m", "7d".
type lengthFlag time.Duration

// spelled are lengths as people write them who do not know the units.
var spelled = regexp.MustCompile(`^(\d+) *(s|m|h|d|w)[a-z]*$`)

// UnmarshalText reads a length, from a millisecond to a year.
func (l *lengthFlag) UnmarshalText(text []byte) error {
	if len(text) > 0 && text[0] >= '0' && text[0] <= '9' {
		if limit, err := stint.ParseLimit("1/" + string(text)); err == nil {
			*l = lengthFlag(limit.Window)
			return nil
		}
	}
	hint := ""
	if parts := spelled.FindSubmatch(text); parts != nil {
		n, unit := string(parts[1]), string(parts[2])
		if weeks, err := strconv.Atoi(n); unit == "w" && err == nil && weeks < 52 {
			n, unit = strconv.Itoa(7*weeks), "d"
		}
		if limit, err := stint.ParseLimit("1/" + n + unit); err == nil {
			hint = fmt.Sprintf(" (did you mean %s?)", short(limit.Window))
		}
	}
	return fmt.Errorf("%q is not a length of time; want something like 30s, 10m, 1h30m or 7d, at most a year%s", text, hint)
}

// short returns a length of time as exact as people need it: 850ms, 12.5s, 1m43s, 2h5m, 3d4h.
func short(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Millisecond:
		return duration(d.Round(time.Microsecond)).String()
	case d < time.Second:
		return duration(d.Round(time.Millisecond)).String()
	case d < time.Minute:
		return duration(d.Round(100 * time.Millisecond)).String()
	case d < time.Hour:
		return duration(d.Round(time.Second)).String()
	case d < day:
		return duration(d.Round(time.Minute)).String()
	}
	d = d.Round(time.Hour)
	text := strconv.Itoa(int(d/day)) + "d"
	if rest := d % day; rest > 0 {
		text += duration(rest).String()
	}
	return text
}

// inSeconds returns seconds as a length of time; -1 is "never".
func inSeconds(seconds float64) string {
	if seconds < 0 {
		return "never"
	}
	return short(time.Duration(seconds * float64(time.Second)))
}
