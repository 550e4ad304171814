// Package report tells what a simulation found: as text for a terminal or a file, and as a page in one HTML file that
// needs nothing else and asks nobody for anything. Both say the same, in the same words.
//
//	found, err := simulate.Run(ctx, log, simulate.Options{Set: set})
//	...
//	r := report.New(found, report.Names{Config: "stint.yaml", Logs: []string{"access.log"}})
//	os.Stdout.Write(r.Text(report.Terminal{}))
//
// For programs there is the JSON of [simulate.Result]. Times are UTC. Subjects and paths are written by whoever sent a request:
// here they are text on one line, whatever they hold.
package report

import (
	"fmt"
	"path/filepath"

	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/simulate"
)

// Names are what the files are called that a simulation was made of.
type Names struct {
	// Config and Against are the configurations; Against is "" without one.
	Config, Against string
	// Logs are in the order in which they were given.
	Logs []string
}

// Report is what is told about a result.
type Report struct {
	result   *simulate.Result
	title    string
	lead     string
	sections []section
}

// section is a part of a report with a heading.
type section struct {
	ID, Title string
	Blocks    []block
}

// block is a [paragraph], a [table] or a [timeline].
type block interface {
	// text writes it for people at a terminal.
	text(p *printer)
}

// paragraph is a sentence or two.
type paragraph struct{ Text string }

// New tells what a result says. The result must not be changed afterwards.
func New(r *simulate.Result, names Names) *Report {
	n := words{names: names, day: sameDay(r.Log.First, r.Log.Last)}
	report := &Report{result: r, title: n.title(), lead: n.lead(r)}
	for _, s := range []section{
		n.read(r), n.notes(r), n.outcome(r), n.compared(r), n.hit(r), n.bans(r), n.headroom(r), n.recommended(r),
	} {
		if len(s.Blocks) > 0 {
			report.sections = append(report.sections, s)
		}
	}
	return report
}

// words is how one report speaks of times and files.
type words struct {
	names Names
	// day says that everything happened on one day: times of day tell enough.
	day bool
}

func (n *words) title() string {
	text := n.config()
	if n.names.Against != "" {
		text += " against " + n.against()
	}
	switch len(n.names.Logs) {
	case 0:
		return text
	case 1:
		return text + " on " + fileName(n.names.Logs[0])
	}
	return fmt.Sprintf("%s on %d logs", text, len(n.names.Logs))
}

func (n *words) config() string  { return fileName(n.names.Config) }
func (n *words) against() string { return fileName(n.names.Against) }

// lead is the result in a sentence.
func (n *words) lead(r *simulate.Result) string {
	total, subjects := r.Outcome.Total, r.Outcome.Subjects
	switch {
	case total.Requests == 0:
		return "No request was replayed."
	case total.Denied == 0 && total.Shadowed == 0:
		return fmt.Sprintf("%s would have denied none of %s.", n.config(), count(total.Requests, "request", "requests"))
	case total.Denied == 0:
		return fmt.Sprintf("%s would have denied none of %s, and %s (%s) if what is in shadow were enforced.",
			n.config(), count(total.Requests, "request", "requests"), number(total.Shadowed), share(total.Shadowed, total.Requests))
	}
	beyond := ""
	if subjects.Others.Denied > 0 {
		beyond = fmt.Sprintf(" that are told apart, and %s of others", number(subjects.Others.Denied))
	}
	return fmt.Sprintf("%s would have denied %s of %s (%s): those of %s of %s%s.",
		n.config(), number(total.Denied), count(total.Requests, "request", "requests"), share(total.Denied, total.Requests),
		number(subjects.Hit), count(subjects.Seen, "subject", "subjects"), beyond)
}

// notes is what a reader has to know.
func (n *words) notes(r *simulate.Result) section {
	s := section{ID: "notes", Title: "To bear in mind"}
	for _, note := range r.Notes {
		s.Blocks = append(s.Blocks, paragraph{Text: note})
	}
	return s
}

// fileName is the last part of a path, which is what people know a file by.
func fileName(path string) string {
	switch path {
	case "":
		return "the configuration"
	case "-":
		return "standard input"
	}
	return label.Line(filepath.Base(path))
}
