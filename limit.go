package stint

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/calendar"
)

// Algorithm determines how a limit counts.
type Algorithm uint8

const (
	// AlgorithmSliding keeps a compact log of the requests. It admits at most Max in any Window.
	// With a Burst, it admits at most Burst in any Window, and Max per Window in the long run. It
	// is the default.
	AlgorithmSliding Algorithm = iota
	// AlgorithmBucket refills Max tokens per Window, continuously, up to its capacity. It admits at
	// most capacity + Max in any Window.
	AlgorithmBucket
	// AlgorithmFixed counts in windows aligned to the Unix epoch, as Envoy's rate limit service
	// does. It admits at most 2·Max in any Window.
	AlgorithmFixed
	// AlgorithmConcurrency admits Max holders at once. A holder that sends no heartbeat keeps its
	// place for one Window. A request takes one place, whatever its cost.
	AlgorithmConcurrency
	// AlgorithmCalendar counts in days, weeks, months or years of the calendar. It admits at most
	// Max in each period. The length of Window selects the period: 24 hours, 7 days, 31 days or 366
	// days.
	AlgorithmCalendar
)

var algorithmNames = [...]string{"sliding", "bucket", "fixed", "concurrency", "calendar"}

// String returns the name of the algorithm, as used in the text of limits and in store keys.
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return "algorithm(" + strconv.Itoa(int(a)) + ")"
}

// Bounds on limits. Every count is an integer that a float64 holds exactly, because Redis scripts
// compute in float64.
const (
	// MaxUnits is the largest value of a limit, a burst, a cost or a sum of costs: 2^53.
	MaxUnits = int64(1) << 53
	// MinWindow and MaxWindow bound a limit's window.
	MinWindow = time.Millisecond
	MaxWindow = 366 * 24 * time.Hour
	// MaxBurst is the largest burst of a sliding limit, as a multiple of Max.
	MaxBurst = 100
	// MaxLimits is the maximum number of limits in one claim.
	MaxLimits = 16
)

// Resolution is the number of slices into which a sliding limit divides its window. A limit with a
// capacity of at most Resolution remembers the exact microsecond of every request. A larger limit
// combines the requests in each slice, and counts them until the end of the slice has left the
// window: units are never available early, and at most one slice late.
const Resolution = 125

// Limit is the number of units allowed per window. It is a plain value: copy it, or write it as a
// literal. Limits with different fields may be equivalent: a Burst of 0 means a Burst of Max.
//
// A store keeps usage by the limit's identity, which is its name, algorithm and window. Max and
// Burst are not part of it: if you change them, the next decision applies the new values and keeps
// the history.
type Limit struct {
	// Max is the number of units per Window. Zero denies everything.
	Max int64
	// Window is a whole number of microseconds between MinWindow and MaxWindow.
	Window time.Duration
	// Burst is the most that may be taken at once, in units; zero means Max. For [AlgorithmSliding]
	// it is a multiple of Max: at most Burst in any Window, and Max per Window in the long run. For
	// [AlgorithmBucket] it is the capacity. Other algorithms have no burst.
	Burst int64
	// Algorithm determines how the limit counts. The default is [AlgorithmSliding].
	Algorithm Algorithm
	// Leased lets a process take units in blocks ahead of need and serve them from memory, if
	// package resilience is in use. The limit stays strict across all processes. However, all units
	// of a block count from the time at which it is taken, even those that the process later gives
	// back unused. A process that cannot reach the store denies requests once its block is used up
	// or has expired. Leased is for sliding, fixed and calendar limits.
	Leased bool
	// HoldThrough makes the limit hold the estimate of a request with [Request.Hold] until it is
	// settled, even if the window is not longer than the hold. So the estimates in flight never
	// exceed Max. It is for limits without a burst that are not buckets.
	HoldThrough bool
	// ChargeExpired charges the whole estimate of a hold that expires, instead of what heartbeats
	// have reported. It is for the same limits as HoldThrough.
	ChargeExpired bool
	// Start is the day on which the periods of a calendar limit begin. For months it is 1 to 31,
	// where 31 is the last day of every month; for weeks it is 1 for Monday to 7 for Sunday. 0
	// means 1.
	Start int8
	// Zone is the time zone of a calendar limit by its IANA name, such as "Europe/Berlin"; "" means
	// UTC. Zone and Start are not part of the limit's identity: if they change, the current period
	// still ends at its original time.
	Zone string
	// Name distinguishes two limits with the same algorithm and window on one subject. It may
	// contain letters, digits and "_-."; most limits need none.
	Name string
}

// Per returns a sliding limit of max units per window.
func Per(max int64, window time.Duration) Limit { return Limit{Max: max, Window: window} }

// PerSecond returns a sliding limit of max units per second.
func PerSecond(max int64) Limit { return Per(max, time.Second) }

// PerMinute returns a sliding limit of max units per minute.
func PerMinute(max int64) Limit { return Per(max, time.Minute) }

// PerHour returns a sliding limit of max units per hour.
func PerHour(max int64) Limit { return Per(max, time.Hour) }

// PerDay returns a sliding limit of max units per 24 hours. For days of the calendar, see [Daily].
func PerDay(max int64) Limit { return Per(max, 24*time.Hour) }

// TokenBucket returns a bucket that holds capacity tokens and regains refill tokens per interval, a
// fraction of a token at a time.
func TokenBucket(capacity, refill int64, interval time.Duration) Limit {
	return Limit{Max: refill, Window: interval, Burst: capacity, Algorithm: AlgorithmBucket}
}

// Daily returns a limit of max units per day of the calendar, in UTC unless [Limit.In] sets another
// zone. The count starts from zero in each period.
func Daily(max int64) Limit { return calendarLimit(max, calendar.Day) }

// Weekly returns a limit of max units per week, beginning on Monday unless [Limit.From] sets
// another day. See [Daily].
func Weekly(max int64) Limit { return calendarLimit(max, calendar.Week) }

// Monthly returns a limit of max units per month, beginning on the first day unless [Limit.On] sets
// another day. See [Daily].
func Monthly(max int64) Limit { return calendarLimit(max, calendar.Month) }

// Yearly returns a limit of max units per year. See [Daily].
func Yearly(max int64) Limit { return calendarLimit(max, calendar.Year) }

func calendarLimit(max int64, window time.Duration) Limit {
	return Limit{Max: max, Window: window, Algorithm: AlgorithmCalendar}
}

// In returns the calendar limit with the given time zone. See [Limit.Zone].
func (l Limit) In(zone string) Limit {
	l.Zone = zone
	return l
}

// On returns the monthly limit with periods that begin on the given day of the month, like billing
// periods: 31 is the last day of every month. Called on another limit, it returns an invalid one.
func (l Limit) On(day int) Limit { return l.starting(calendar.Month, day) }

// From returns the weekly limit with weeks that begin on the given weekday. Called on another
// limit, it returns an invalid one.
func (l Limit) From(weekday time.Weekday) Limit {
	return l.starting(calendar.Week, (int(weekday)+6)%7+1)
}

// starting returns the limit with periods that begin on the given day. If window is not the limit's
// window, or if day is 0, the result is invalid.
func (l Limit) starting(window time.Duration, day int) Limit {
	l.Start = -1 // refused by Validate
	if l.Window == window && day != 0 {
		l.Start = int8(min(max(day, -1), 100))
	}
	return l
}

// Concurrency returns a concurrency limit of max holders. A holder that neither releases its place
// nor sends a heartbeat loses it after expiry.
func Concurrency(max int64, expiry time.Duration) Limit {
	return Limit{Max: max, Window: expiry, Algorithm: AlgorithmConcurrency}
}

// BurstTimes returns the limit with a Burst of the given multiple of its Max. The rate in the long
// run stays the same, but more may be taken at once. PerMinute(10).BurstTimes(2) admits 20 at once,
// at most 20 in any minute, and 10 per minute in the long run.
func (l Limit) BurstTimes(times int64) Limit {
	if l.Max == 0 {
		return l
	}
	if times < 0 || times > MaxUnits/l.Max {
		l.Burst = -1 // refused by Validate
		return l
	}
	l.Burst = l.Max * times
	return l
}

// WithName returns the limit with the given name. See [Limit.Name].
func (l Limit) WithName(name string) Limit {
	l.Name = name
	return l
}

// WithLease returns the limit with Leased set. See [Limit.Leased].
func (l Limit) WithLease() Limit {
	l.Leased = true
	return l
}

// Capacity returns the maximum number of units that can be taken at once. It is zero if Max is
// zero.
func (l *Limit) Capacity() int64 {
	if l.Burst > 0 && l.Max > 0 {
		return l.Burst
	}
	return l.Max
}

// hasMeter reports whether the limit has a meter. Buckets and sliding limits with a burst have one.
// See [Limit.Meter].
func (l *Limit) hasMeter() bool {
	return l.Algorithm == AlgorithmBucket || l.Algorithm == AlgorithmSliding && l.Burst > l.Max && l.Max > 0
}

// ID returns the limit's identity as used in store keys: algorithm and window, and the name if it
// has one, as in "sliding/1m" or "sliding/1m/login".
func (l *Limit) ID() string {
	b := make([]byte, 0, 32)
	b = append(b, l.Algorithm.String()...)
	b = append(b, '/')
	b = l.appendWindow(b)
	if l.Name != "" {
		b = append(b, '/')
		b = append(b, l.Name...)
	}
	return string(b)
}

func (l *Limit) sameID(m *Limit) bool {
	return l.Window == m.Window && l.Algorithm == m.Algorithm && l.Name == m.Name
}

// String returns the text that [ParseLimit] reads, such as "100/1m burst 3x".
func (l Limit) String() string {
	b := make([]byte, 0, 48)
	if l.Name != "" {
		b = append(b, l.Name...)
		b = append(b, ": "...)
	}
	b = strconv.AppendInt(b, l.Max, 10)
	b = append(b, '/')
	b = l.appendWindow(b)
	if l.Algorithm == AlgorithmCalendar {
		b = l.appendCalendar(b)
	}
	if l.Burst != 0 {
		b = append(b, " burst "...)
		if l.Max > 0 && l.Burst > 0 && l.Burst%l.Max == 0 {
			b = strconv.AppendInt(b, l.Burst/l.Max, 10)
			b = append(b, 'x')
		} else {
			b = strconv.AppendInt(b, l.Burst, 10)
		}
	}
	if l.Algorithm != AlgorithmSliding && l.Algorithm != AlgorithmCalendar {
		b = append(b, ' ')
		b = append(b, l.Algorithm.String()...)
	}
	for _, option := range l.options() {
		if *option.set {
			b = append(b, " "+option.word...)
		}
	}
	return string(b)
}

// MarshalText returns the text of [Limit.String].
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText parses the text with [ParseLimit].
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := ParseLimit(string(text))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}

// ParseLimit reads a limit from text such as:
//
//	100/1m
//	10/1m burst 2x
//	login: 5/15m
//	10/1s burst 25 bucket
//	20/30s concurrency
//	100000/1m leased
//	100000/1m hold-through
//	2000000/1d charge-expired
//	10000/month in Europe/Berlin
//	5000000/month on 17
//	1000/week from sunday
//
// A limit begins with an optional name and colon, and the units per window. Next come an optional
// burst, as a multiple ("2x") or in units ("25", for buckets), and the algorithm unless it is
// sliding. The words leased, hold-through and charge-expired set the fields with these names. A
// window is a Go duration or a number of days ("1d"); "100/s" means 100/1s. A window can also be a
// day, week, month or year of the calendar. Such a window may be followed by the day on which
// months begin (31 is the last) or weeks begin, and by a time zone. The defaults are the first day
// of the month, Monday and UTC. ParseLimit validates the limit. Its error is an [*InvalidError].
func ParseLimit(text string) (Limit, error) {
	l, err := parseLimit(text)
	if err == nil {
		var m mistakes
		l.check(&m)
		err = m.err()
	} else if right, ok := inUnits(text); ok {
		err = fmt.Errorf("write %s", right)
	}
	if err != nil {
		return Limit{}, &InvalidError{fmt.Errorf("limit %q: %w", text, err)}
	}
	return l, nil
}

// limitOption is an option at the end of a limit's text: a word, and the field that it sets.
type limitOption struct {
	word string
	set  *bool
}

// options returns the words that can end the text of a limit, in the order in which they must
// appear.
func (l *Limit) options() [3]limitOption {
	return [...]limitOption{
		{"leased", &l.Leased}, {"hold-through", &l.HoldThrough}, {"charge-expired", &l.ChargeExpired}}
}

func isOption(word string) bool {
	options := new(Limit).options()
	return slices.ContainsFunc(options[:], func(o limitOption) bool { return o.word == word })
}

const limitForm = `want "units/window", such as "100/1m" or "10/1s burst 2x"`

func parseLimit(text string) (Limit, error) {
	var l Limit
	rest := text
	if name, after, ok := strings.Cut(rest, ":"); ok {
		l.Name, rest = strings.TrimSpace(name), after
		if l.Name == "" {
			return l, fmt.Errorf("the name before the colon is empty")
		}
	}
	words := strings.Fields(rest)
	if len(words) == 0 {
		return l, fmt.Errorf("empty; %s", limitForm)
	}
	units, window, ok := strings.Cut(words[0], "/")
	if !ok {
		return l, fmt.Errorf("no window; %s", limitForm)
	}
	var err error
	if l.Max, err = parseUnits(units); err != nil {
		return l, err
	}
	words = words[1:]
	if length, ok := calendarWindows[window]; ok {
		l.Algorithm, l.Window = AlgorithmCalendar, length
		if words, err = l.parseCalendar(words); err != nil {
			return l, err
		}
	} else if l.Window, err = parseWindow(window); err != nil {
		return l, err
	}
	if len(words) > 0 && words[0] == "burst" {
		if len(words) == 1 {
			return l, fmt.Errorf(`"burst" without a size; want "burst 2x", or "burst 25" for a bucket`)
		}
		if l.Burst, err = parseBurst(words[1], l.Max); err != nil {
			return l, err
		}
		words = words[2:]
	}
	if len(words) > 0 && !isOption(words[0]) && l.Algorithm != AlgorithmCalendar {
		names := algorithmNames[:AlgorithmCalendar] // a calendar limit does not name its algorithm
		i := slices.Index(names, words[0])
		if i < 0 {
			return l, fmt.Errorf("unknown word %q; want burst, %s, leased, hold-through, charge-expired", words[0],
				strings.Join(names, ", "))
		}
		l.Algorithm, words = Algorithm(i), words[1:]
	}
	for _, option := range l.options() {
		if len(words) > 0 && words[0] == option.word {
			*option.set = true
			words = words[1:]
		}
	}
	if len(words) > 0 {
		return l, fmt.Errorf("unexpected %q after the limit; %s", strings.Join(words, " "), limitForm)
	}
	return l, nil
}

func parseUnits(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || s[0] == '+' {
		return 0, fmt.Errorf("%q is not a whole number from 0 to %d", s, MaxUnits)
	}
	return n, nil
}

func parseBurst(s string, max int64) (int64, error) {
	multiple, isMultiple := strings.CutSuffix(s, "x")
	n, err := parseUnits(multiple)
	if err != nil {
		return 0, fmt.Errorf("burst: %w", err)
	}
	if n < 1 || n > MaxUnits {
		return 0, fmt.Errorf("burst %s: want at least 1 and at most %d units", s, MaxUnits)
	}
	if !isMultiple {
		return n, nil
	}
	return Limit{Max: max}.BurstTimes(n).Burst, nil
}

const day = 24 * time.Hour

// parseWindow reads a Go duration with an optional leading number of days, or a unit without a
// number, such as "s".
func parseWindow(s string) (time.Duration, error) {
	text := s
	if text != "" && (text[0] < '0' || text[0] > '9') && text[0] != '.' {
		text = "1" + text
	}
	var window time.Duration
	if days, rest, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("window %q: %q is not a number of days", s, days)
		}
		if n > int64(MaxWindow/day) {
			return 0, fmt.Errorf("window %q: want at most %d days", s, MaxWindow/day)
		}
		window, text = time.Duration(n)*day, rest
		if text == "" {
			return window, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf(`window %q: want a duration such as "1s", "1m30s", "1h" or "1d", or a day, week, month or year`, s)
	}
	if d > MaxWindow {
		return 0, fmt.Errorf("window %q: want at most %d days", s, MaxWindow/day)
	}
	return window + d, nil
}

// inUnits corrects a limit such as "10/minute" or "10 per 5 minutes" to "10/1m" or "10/5m". It
// reports false if the result is not a limit.
func inUnits(text string) (right string, ok bool) {
	name, rest, named := strings.Cut(text, ":")
	if !named {
		name, rest = "", text
	} else {
		name += ": "
	}
	words := strings.Fields(strings.ReplaceAll(rest, "/", " "))
	words = slices.DeleteFunc(words, func(word string) bool { return word == "per" })
	if len(words) > 2 && isNumber(words[1]) {
		words = slices.Replace(words, 1, 3, words[1]+words[2])
	}
	if len(words) < 2 || !isNumber(words[0]) {
		return "", false
	}
	unit := strings.TrimLeft(words[1], "0123456789")
	number := cmp.Or(strings.TrimSuffix(words[1], unit), "1")
	unit = strings.ToLower(unit)
	if len(unit) > 2 { // keep the s of "ms"
		unit = strings.TrimSuffix(unit, "s")
	}
	short, ok := map[string]string{"second": "s", "sec": "s", "minute": "m", "min": "m", "hour": "h", "hr": "h",
		"day": "d", "ms": "ms", "s": "s", "m": "m", "h": "h", "d": "d"}[unit]
	words[1] = number + short
	right = name + words[0] + "/" + strings.Join(words[1:], " ")
	_, err := parseLimit(right)
	return right, ok && err == nil
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// appendWindow appends the window in the form used in the limit's text: "1m", or "month".
func (l *Limit) appendWindow(b []byte) []byte {
	if l.Algorithm == AlgorithmCalendar {
		for name, window := range calendarWindows {
			if window == l.Window {
				return append(b, name...)
			}
		}
	}
	return appendWindow(b, l.Window)
}

// appendWindow appends a window in its shortest exact form: "1m", not "1m0s".
func appendWindow(b []byte, window time.Duration) []byte {
	if window >= day {
		b = strconv.AppendInt(b, int64(window/day), 10)
		b = append(b, 'd')
		if window %= day; window == 0 {
			return b
		}
	}
	s := window.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return append(b, s...)
}
