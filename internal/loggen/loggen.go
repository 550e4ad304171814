// Package loggen generates access logs of an invented shop with an API: a few people come often and
// most rarely, days are busier than nights and weekdays than weekends, a crawler reads the catalog
// at night, and once someone tries passwords. The same options generate the same bytes, so that
// examples, tests and benchmarks can be repeated.
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

// Options set up a log. Zero fields have defaults.
type Options struct {
	// Seed makes logs differ.
	Seed uint64
	// Lines is how many lines there are: 100,000 by default.
	Lines int
	// From is when the log begins: by default on Monday, March 2, 2026, at midnight UTC.
	From time.Time
	// Span is how long it lasts, in whole minutes: three days by default.
	Span time.Duration
	// Users is how many people there are: 2,000 by default.
	Users int
	// JSON writes lines of JSON instead of the combined format. They have milliseconds, and more:
	// the host, the API key and the plan of those who have one.
	JSON bool
}

// Mapping says where lines of JSON hold what is not in a usual field.
const Mapping = "header:X-Api-Key=api_key,claim:plan=plan"

// Generate writes a log in order of time.
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
