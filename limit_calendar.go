package stint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/calendar"
)

var calendarWindows = map[string]time.Duration{"day": calendar.Day, "week": calendar.Week, "month": calendar.Month,
	"year": calendar.Year}

var weekdays = [...]string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

// appendCalendar appends the day on which periods begin and the time zone, unless they are the
// defaults.
func (l *Limit) appendCalendar(b []byte) []byte {
	switch {
	case l.Start == 0:
	case l.Window == calendar.Week && l.Start > 0 && int(l.Start) <= len(weekdays):
		b = append(b, " from "+weekdays[l.Start-1]...)
	default:
		b = append(b, " on "+strconv.Itoa(int(l.Start))...)
	}
	if l.Zone != "" {
		b = append(b, " in "+l.Zone...)
	}
	return b
}

// parseCalendar reads the day on which periods begin and the time zone, and returns the words that
// follow.
func (l *Limit) parseCalendar(words []string) ([]string, error) {
	if len(words) > 0 && words[0] == "on" && l.Window == calendar.Month {
		if len(words) == 1 || !isNumber(words[1]) || len(words[1]) > 2 {
			return nil, errors.New(`"on" without a day; want "on 17", the day on which months begin`)
		}
		n, _ := strconv.Atoi(words[1])
		if n == 0 {
			n = -1 // refused by Validate
		}
		l.Start, words = int8(n), words[2:]
	}
	if len(words) > 0 && words[0] == "from" && l.Window == calendar.Week {
		for i, name := range weekdays {
			if len(words) > 1 && strings.EqualFold(name, words[1]) {
				l.Start = int8(i + 1)
			}
		}
		if l.Start == 0 {
			return nil, errors.New(`"from" without a day; want "from sunday", the day on which weeks begin`)
		}
		words = words[2:]
	}
	if len(words) > 0 && words[0] == "in" {
		if len(words) == 1 {
			return nil, errors.New(`"in" without a time zone; want a name such as "in Europe/Berlin"`)
		}
		l.Zone, words = words[1], words[2:]
	}
	if len(words) > 0 && !isOption(words[0]) {
		return nil, fmt.Errorf("%q after a period of the calendar; want %q, %q, %q or %q", words[0],
			"on 17" /* of a month */, "from sunday" /* of a week */, "in Europe/Berlin", "leased")
	}
	return words, nil
}

// checkCalendar records what is wrong with Window, Start and Zone if the limit is a calendar limit.
// For any other limit, it records a mistake if Start or Zone is set.
func (l *Limit) checkCalendar(m *mistakes) {
	if l.Algorithm != AlgorithmCalendar {
		if l.Start != 0 || l.Zone != "" {
			m.add("a start or a time zone is set; a %v limit has neither", l.Algorithm)
		}
		return
	}
	last, want := int8(0), "no start: only weeks and months have one"
	switch l.Window {
	case calendar.Day, calendar.Year:
	case calendar.Week:
		last, want = 7, "a day of the week, 1 to 7"
	case calendar.Month:
		last, want = 31, "a day of the month, 1 to 31"
	default:
		m.add("a window of %v; want the length of a day, a week, a month or a year: 24 hours, 7, 31 or 366 days", l.Window)
		return
	}
	if l.Start < 0 || l.Start > last {
		m.add("it starts on day %d; want %s", l.Start, want)
	}
	if l.Zone != "" {
		if _, err := calendar.Location(l.Zone); err != nil {
			m.add("%w", err)
		}
	}
}
