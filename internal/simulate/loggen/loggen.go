// Package loggen generates access logs of a fictional shop with an API. A few users send many
// requests and most send few. Days are busier than nights, and weekdays busier than weekends. A
// crawler reads the catalog at night, and there is one password-guessing attack. The same options
// generate the same bytes, so examples, tests and benchmarks are repeatable.
package loggen

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// Options configures a log. Fields that are zero have defaults.
type Options struct {
	// Seed is the seed of the random number generator. Different seeds generate different logs.
	Seed uint64
	// Lines is the number of lines: 100,000 by default.
	Lines int
	// From is the beginning of the log: by default Monday, March 2, 2026, at midnight UTC.
	From time.Time
	// Span is the length of the log, in whole minutes: three days by default.
	Span time.Duration
	// Users is the number of users: 2,000 by default.
	Users int
	// JSON selects JSON lines instead of the combined format. JSON lines have times with
	// millisecond precision and additional fields: the host and, for users who are signed in, the
	// API key and the plan.
	JSON bool
}

// Generate writes a log in chronological order.
func Generate(w io.Writer, o Options) error {
	o.Lines = cmp.Or(o.Lines, 100_000)
	o.Span = cmp.Or(o.Span, 3*24*time.Hour)
	o.Users = cmp.Or(o.Users, 2000)
	if o.From.IsZero() {
		o.From = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)
	}
	if o.Lines < 0 || o.Span < time.Minute || o.Span%time.Minute != 0 || o.Users < 1 {
		return fmt.Errorf("loggen: %d lines in %v of %d users; want at least one line, whole minutes, and one user",
			o.Lines, o.Span, o.Users)
	}
	random := rand.New(rand.NewPCG(o.Seed, 0))
	c := newPeople(&o, random)
	out := bufio.NewWriterSize(w, 64<<10)
	var events []event
	var line []byte
	for minute, n := range newSchedule(&o).minutes() {
		start := o.From.Add(time.Duration(minute) * time.Minute)
		events = c.minute(events[:0], n)
		slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
		for i := range events {
			line = c.appendLine(line[:0], &events[i], start.Add(events[i].at))
			if _, err := out.Write(line); err != nil {
				return fmt.Errorf("loggen: %w", err)
			}
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("loggen: %w", err)
	}
	return nil
}

const host = "shop.example"

// appendLine appends the log line for a request. No value needs escaping.
func (c *people) appendLine(b []byte, e *event, at time.Time) []byte {
	path := e.path
	if e.number >= 0 {
		path = fmt.Sprint(path, e.number)
	}
	who := &e.who
	if !c.options.JSON {
		user := "-"
		if who.member {
			user = fmt.Sprint("user-", who.number)
		}
		return fmt.Appendf(b, "%v - %s [%s] \"%s %s HTTP/1.1\" %d %d \"-\" \"%s\"\n", who.client, user,
			at.Format("02/Jan/2006:15:04:05 -0700"), e.method, path, e.status, e.bytes, who.agent)
	}
	b = fmt.Appendf(b, `{"time":"%s","client":"%v","method":"%s","host":"%s","path":"%s","status":%d,"bytes":%d,"user_agent":"%s"`,
		at.Format("2006-01-02T15:04:05.000Z07:00"), who.client, e.method, host, path, e.status, e.bytes, who.agent)
	if who.member {
		b = fmt.Appendf(b, `,"user":"user-%d","api_key":"key-%d","plan":"%s"`, who.number, who.number, who.plan())
	}
	return append(b, "}\n"...)
}
