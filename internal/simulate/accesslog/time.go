package accesslog

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Times before firstYear or after lastYear cannot be the times of requests. All other times can be
// represented in Unix nanoseconds.
const (
	firstYear = 1970
	lastYear  = 2261
)

// parseTime reads a time and returns it in Unix nanoseconds. It accepts the format of Apache and
// nginx, such as "10/Oct/2000:13:55:36 -0700"; RFC 3339, also with a zone without a colon (+0100);
// and Unix time in seconds, milliseconds, microseconds or nanoseconds. It recognizes the unit of a
// Unix time by the size of the number.
func parseTime(s string) (at int64, ok bool) {
	switch {
	case len(s) > 2 && s[2] == '/':
		return parseApacheTime(s)
	case len(s) > 4 && s[4] == '-':
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t, err = time.Parse("2006-01-02T15:04:05Z0700", s)
		}
		if year := t.UTC().Year(); err != nil || year < firstYear || year > lastYear {
			return 0, false
		}
		return t.UnixNano(), true
	default:
		return parseUnixTime(s)
	}
}

// parseApacheTime reads "10/Oct/2000:13:55:36 -0700", with or without a fraction of a second.
// [time.Parse] is slower and rejects leap seconds.
func parseApacheTime(s string) (at int64, ok bool) {
	const shortest = len("10/Oct/2000:13:55:36 -0700")
	if len(s) < shortest || s[2] != '/' || s[6] != '/' || s[11] != ':' || s[14] != ':' || s[17] != ':' {
		return 0, false
	}
	zone := len(s) - len(" -0700")
	fraction, ok := parseFraction(s[20:zone])
	if !ok || s[zone] != ' ' || s[zone+1] != '+' && s[zone+1] != '-' {
		return 0, false
	}
	month, day := monthOf(s[3:6]), twoDigits(s[0:])
	year := twoDigits(s[7:])*100 + twoDigits(s[9:])
	hour, minute, second := twoDigits(s[12:]), twoDigits(s[15:]), twoDigits(s[18:])
	offset := twoDigits(s[zone+2:])*60 + twoDigits(s[zone+4:])
	// Characters that are not digits give values outside these ranges.
	if month == 0 || year < firstYear || year > lastYear ||
		hour > 23 || minute > 59 || second > 60 || offset > 24*60 {
		return 0, false
	}
	if s[zone+1] == '-' {
		offset = -offset
	}
	midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	seconds := midnight.Unix() + int64(hour*3600+(minute-offset)*60+second)
	if midnight.Day() != day || seconds < 0 {
		return 0, false
	}
	return seconds*1e9 + fraction, true
}

// twoDigits returns the number that the first two bytes of s form, or 100,000 if they are not
// digits.
func twoDigits(s string) int {
	tens, ones := s[0]-'0', s[1]-'0'
	if tens > 9 || ones > 9 {
		return 100_000
	}
	return int(tens)*10 + int(ones)
}

// monthOf returns the month with the given English abbreviation, such as "Oct", or 0 if there is
// none.
func monthOf(s string) time.Month {
	const names = "JanFebMarAprMayJunJulAugSepOctNovDec"
	for i := 0; i < len(names); i += 3 {
		if s == names[i:i+3] {
			return time.Month(i/3 + 1)
		}
	}
	return 0
}

// parseFraction reads "" or a decimal point and digits, as nanoseconds. It ignores digits after the
// ninth.
func parseFraction(s string) (nanoseconds int64, ok bool) {
	if s == "" {
		return 0, true
	}
	if s[0] != '.' || len(s) == 1 {
		return 0, false
	}
	unit := int64(1e8)
	for i := 1; i < len(s); i++ {
		digit := s[i] - '0'
		if digit > 9 {
			return 0, false
		}
		nanoseconds += int64(digit) * unit
		unit /= 10
	}
	return nanoseconds, true
}

// parseUnixTime reads a Unix time as a decimal number. A number without an exponent is read
// exactly, and not as a float64.
func parseUnixTime(s string) (at int64, ok bool) {
	digits := 0
	for digits < len(s) && s[digits]-'0' <= 9 {
		digits++
	}
	whole, err := strconv.ParseInt(s[:digits], 10, 64)
	fraction, plain := parseFraction(s[digits:])
	if err != nil || !plain {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || strings.Trim(s, "0123456789.eE+-") != "" || f < 0 || f >= math.MaxInt64 {
			return 0, false
		}
		seconds, part := math.Modf(f)
		whole, fraction = int64(seconds), int64(part*1e9)
	}
	unit := int64(1)
	switch {
	case whole < 1e11: // as seconds, 1e11 is in the year 5138; as milliseconds, it is in 1973
		unit = 1e9
	case whole < 1e14:
		unit = 1e6
	case whole < 1e17:
		unit = 1e3
	}
	if whole >= math.MaxInt64/unit {
		return 0, false
	}
	return whole*unit + fraction/(1e9/unit), true
}
