// Package figures formats numbers for plain text. It also draws charts with characters.
package figures

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// These constants are the characters that [Bar] draws with.
const (
	Full  = "█"
	Empty = "░"
)

// Exact formats a duration in its shortest exact form: "1h", not "1h0m0s".
func Exact(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Length formats a duration for display, rounded to at most two units: 850ms, 12.5s, 1m43s, 2h5m,
// 3d4h.
func Length(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 0 {
		return "-" + Length(max(-d, 0))
	}
	for _, u := range []struct{ least, unit time.Duration }{
		{day, time.Hour}, {time.Hour, time.Minute}, {time.Minute, time.Second}, {time.Second, 100 * time.Millisecond},
		{time.Millisecond, time.Millisecond}, {0, time.Microsecond},
	} {
		if rounded := d.Round(u.unit); rounded >= u.least {
			d = rounded
			break
		}
	}
	days, rest := d/day, d%day
	switch {
	case days == 0:
		return Exact(rest)
	case rest == 0:
		return strconv.FormatInt(int64(days), 10) + "d"
	}
	return strconv.FormatInt(int64(days), 10) + "d" + Exact(rest)
}

// Seconds returns a duration as an exact decimal number of seconds. The result is also a valid JSON
// number. [time.Duration.Seconds] is inexact for some durations: it may return 421.68710599999997.
func Seconds(d time.Duration) string {
	sign, n := "", uint64(d)
	if d < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%d.%09d", sign, n/1e9, n%1e9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Bar returns a bar of which the given share, from 0 to 1, is filled. A share above 0 never looks
// empty. A share below 1 never looks full unless width is 1.
func Bar(share float64, width int) string {
	full := 0
	switch {
	case share >= 1:
		full = width
	case share > 0:
		full = min(max(int(share*float64(width)), 1), width)
	}
	return strings.Repeat(Full, full) + strings.Repeat(Empty, width-full)
}

// Heights draws numbers as columns of different heights, one character for each number. For
// example, 0, 3 and 8 become " ▃█". The largest number gets the highest column. The column of a
// number above 0 is never blank.
func Heights(numbers []int64) string {
	marks := []rune(" ▁▂▃▄▅▆▇█")
	if len(numbers) == 0 {
		return ""
	}
	most := float64(slices.Max(numbers))
	var b strings.Builder
	for _, n := range numbers {
		i := 0
		if n > 0 {
			i = max(int(float64(n)/most*float64(len(marks)-1)), 1)
		}
		b.WriteRune(marks[i])
	}
	return b.String()
}

// Number formats a number with thousands separators: 1,204,331.
func Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Percent formats a share as a percentage. Only 0 is shown as 0%, and only 1 as 100%.
func Percent(x float64) string {
	switch {
	case x > 0 && x < 0.0001:
		return "<0.01%"
	case x < 1 && x > 0.9999:
		return ">99.99%"
	case x < 0.1 || x > 0.99 && x < 1:
		return Decimal(100*x, 2) + "%"
	}
	return Decimal(100*x, 1) + "%"
}

// Decimal formats a number with at most the given number of digits after the decimal point. The
// argument digits must be at least 1.
func Decimal(x float64, digits int) string {
	text := strconv.FormatFloat(x, 'f', digits, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
