// Package report writes the result of a simulation: as text for a terminal or a file, and as one
// HTML file that loads nothing else. Both have the same content in the same words.
//
//	found, err := simulate.Run(ctx, log, simulate.Options{Set: set})
//	...
//	r := report.New(found, report.Names{Config: "stint.yaml", Logs: []string{"access.log"}})
//	os.Stdout.Write(r.Text(report.Terminal{}))
//
// Programs should read the JSON of [simulate.Result] instead. Times are in UTC. Subjects and paths
// come from requests, so they may contain any characters. The report shows each as text on one
// line.
//
// To add a section, write a method of builder, as in the section_*.go files, and call it in New.
package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/simulate"
)

// Names holds the file names of a simulation.
type Names struct {
	// Config and Against name the configurations. Against is "" if there is none.
	Config, Against string
	// Logs lists the logs, in the order of the command line.
	Logs []string
}

// Report is a result that has been prepared for display.
type Report struct {
	result   *simulate.Result
	title    string
	lead     string
	sections []section
}

type section struct {
	ID, Title string
	Blocks    []block
}

// block is a [paragraph], a [table] or a [timeline].
type block interface {
	// empty reports whether there is nothing to show.
	empty() bool
	// text writes the block to p as text.
	text(p *printer)
}

type paragraph struct{ Text string }

// New returns a report on a result, which must not change afterward.
func New(r *simulate.Result, names Names) *Report {
	oneDay := r.Log.First.Format(time.DateOnly) == r.Log.Last.Format(time.DateOnly)
	b := builder{names: names, oneDay: oneDay}
	report := &Report{result: r, title: b.title(), lead: strings.TrimSpace(r.Warning + " " + b.lead(r))}
	for _, s := range []section{
		b.read(r), b.notes(r), b.outcome(r), b.compared(r), b.hit(r), b.bans(r), b.headroom(r), b.recommended(r),
		b.size(r),
	} {
		if s.Blocks = slices.DeleteFunc(s.Blocks, block.empty); len(s.Blocks) > 0 {
			report.sections = append(report.sections, s)
		}
	}
	return report
}

type builder struct {
	names  Names
	oneDay bool // whether the log covers only one day, so that tables need no dates
}

func (b *builder) title() string {
	text := b.config()
	if b.names.Against != "" {
		text += " against " + b.against()
	}
	switch len(b.names.Logs) {
	case 0:
		return text
	case 1:
		return text + " on " + fileName(b.names.Logs[0])
	}
	return fmt.Sprintf("%s on %d logs", text, len(b.names.Logs))
}

func (b *builder) config() string  { return fileName(b.names.Config) }
func (b *builder) against() string { return fileName(b.names.Against) }

// lead summarizes the result in one sentence.
func (b *builder) lead(r *simulate.Result) string {
	total, subjects := r.Outcome.Total, r.Outcome.Subjects
	requests := count(total.Requests, "request", "requests")
	switch {
	case total.Requests == 0:
		return "No request was replayed."
	case total.Denied == 0 && total.Shadowed == 0:
		return fmt.Sprintf("%s would have denied none of %s.", b.config(), requests)
	case total.Denied == 0:
		return fmt.Sprintf("%s would have denied none of %s, and %s of them (%s) if everything in shadow were enforced.",
			b.config(), requests, figures.Number(total.Shadowed), share(total.Shadowed, total.Requests))
	}
	whose := fmt.Sprintf("%s of %s", figures.Number(subjects.Hit), count(subjects.Seen, "subject", "subjects"))
	if subjects.Others.Denied > 0 {
		whose = fmt.Sprintf("%s of the first %s, and %s from others",
			figures.Number(subjects.Hit), count(subjects.Seen, "subject", "subjects"),
			figures.Number(subjects.Others.Denied))
	}
	return fmt.Sprintf("%s would have denied %s of %s (%s), from %s.",
		b.config(), figures.Number(total.Denied), requests, share(total.Denied, total.Requests), whose)
}

func (b *builder) notes(r *simulate.Result) section {
	s := section{ID: "notes", Title: "Notes"}
	for _, note := range r.Notes {
		s.Blocks = append(s.Blocks, paragraph{Text: note})
	}
	return s
}

// fileName returns the name that the report shows for a path. For a file, this is the last element
// of the path.
func fileName(path string) string {
	switch path {
	case "":
		return "the configuration"
	case "-":
		return "standard input"
	}
	return label.Line(filepath.Base(path))
}
