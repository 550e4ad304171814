package report

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/simulate"
)

// timeline is a chart of counts over time.
type timeline struct {
	Label string
	Start time.Time
	Step  time.Duration
	Lines []timedLine
	at    func(time.Time) string // formats times
}

// timedLine is one line of a timeline, with a number for each step.
type timedLine struct {
	Name   string
	Tone   tone
	Values []int64
}

// newTimeline returns the timeline of a series. It omits lines without values above 0.
func (b *builder) newTimeline(title string, s *simulate.Series) timeline {
	requests := make([]int64, len(s.Allowed))
	for i := range requests {
		requests[i] = s.Allowed[i] + s.Denied[i]
	}
	t := timeline{Label: title, Start: s.Start, Step: time.Duration(s.Step), at: b.at}
	for _, line := range []timedLine{
		{"requests", allowed, requests}, {"denied", denied, s.Denied}, {"in shadow", plain, s.Shadowed},
	} {
		if most(line.Values) > 0 {
			t.Lines = append(t.Lines, line)
		}
	}
	return t
}

// most returns the largest number, or 0 if there are none.
func most(numbers []int64) int64 {
	largest := int64(0)
	for _, v := range numbers {
		largest = max(largest, v)
	}
	return largest
}

// leastSteps is the minimum number of columns of a timeline, however narrow the terminal is.
const leastSteps = 10

func (t timeline) empty() bool { return len(t.Lines) == 0 }

func (t timeline) text(p *printer) {
	names := 0
	for _, l := range t.Lines {
		names = max(names, len(l.Name))
	}
	group, notes := 1, t.peaks(1)
	for ; t.columns(group) > max(p.room(len(indent)+names+2*gap+widest(notes)), leastSteps); notes = t.peaks(group) {
		group++
	}
	p.line(indent + p.paint(boldText, t.Label))
	for i, l := range t.Lines {
		drawn := p.paint(colorOf(l.Tone), figures.Heights(grouped(l.Values, group)))
		p.line(fmt.Sprintf("%s%-*s  %s  %s", indent, names, l.Name, drawn, notes[i]))
	}
	p.line(indent + strings.Repeat(" ", names+gap) + t.ends(t.columns(group)))
}

// columns returns the number of columns if each column combines the given number of steps.
func (t *timeline) columns(group int) int { return (len(t.Lines[0].Values) + group - 1) / group }

// peaks describes the highest column of each line.
func (t *timeline) peaks(group int) []string {
	notes := make([]string, len(t.Lines))
	for i, l := range t.Lines {
		notes[i] = fmt.Sprintf("at most %s in %s",
			figures.Number(most(grouped(l.Values, group))), figures.Length(time.Duration(group)*t.Step))
	}
	return notes
}

// ends formats the start and the end time, for the line below a chart of the given width.
func (t *timeline) ends(width int) string {
	from, to := t.at(t.Start), t.at(t.Start.Add(time.Duration(len(t.Lines[0].Values))*t.Step))
	blanks := width - utf8.RuneCountInString(from) - utf8.RuneCountInString(to)
	if blanks < 1 {
		return from + " to " + to
	}
	return from + strings.Repeat(" ", blanks) + to
}

// grouped divides numbers into groups of the given size, and returns the sum of each group.
func grouped(numbers []int64, size int) []int64 {
	sums := make([]int64, 0, len(numbers)/size+1)
	for i, n := range numbers {
		if i%size == 0 {
			sums = append(sums, 0)
		}
		sums[len(sums)-1] += n
	}
	return sums
}

// widest returns the number of characters in the longest text.
func widest(texts []string) int {
	n := 0
	for _, text := range texts {
		n = max(n, utf8.RuneCountInString(text))
	}
	return n
}
