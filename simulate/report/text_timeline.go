package report

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-limiter/stint/internal/figures"
)

// leastSteps is how many columns a timeline has room for, however narrow the terminal is.
const leastSteps = 10

func (t timeline) text(p *printer) {
	if len(t.Lines) == 0 {
		return
	}
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
		drawn := p.paint(colourOf(l.Tone), figures.Heights(grouped(l.Values, group)))
		p.line(fmt.Sprintf("%s%-*s  %s  %s", indent, names, l.Name, drawn, notes[i]))
	}
	p.line(indent + strings.Repeat(" ", names+gap) + t.ends(t.columns(group)))
}

// columns is how many there are of so many steps each.
func (t *timeline) columns(group int) int { return (len(t.Lines[0].Values) + group - 1) / group }

// peaks tells how high the highest column of each line is.
func (t *timeline) peaks(group int) []string {
	notes := make([]string, len(t.Lines))
	for i, l := range t.Lines {
		notes[i] = fmt.Sprintf("at most %s in %s", number(most(grouped(l.Values, group))), figures.Length(time.Duration(group)*t.Step))
	}
	return notes
}

// ends are the times of both ends, below a drawing of a width.
func (t *timeline) ends(width int) string {
	from, to := t.words.at(t.Start), t.words.at(t.Start.Add(time.Duration(len(t.Lines[0].Values))*t.Step))
	blanks := width - utf8.RuneCountInString(from) - utf8.RuneCountInString(to)
	if blanks < 1 {
		return from + " to " + to
	}
	return from + strings.Repeat(" ", blanks) + to
}

// grouped adds up so many numbers at a time.
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

// widest is how many characters the longest text has.
func widest(texts []string) int {
	n := 0
	for _, text := range texts {
		n = max(n, utf8.RuneCountInString(text))
	}
	return n
}
