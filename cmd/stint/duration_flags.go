package main

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
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
