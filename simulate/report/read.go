package report

import (
	"fmt"
	"time"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/simulate"
)

// read is the section on the log.
func (n *words) read(r *simulate.Result) section {
	log := &r.Log
	facts := table{Columns: []column{{}, {Long: true}}}
	fact := func(name, text string) { facts.Rows = append(facts.Rows, cells(name, text)) }
	if !log.First.IsZero() {
		fact("time", fmt.Sprintf("%s to %s UTC, %s", fullTime(log.First), fullTime(log.Last), figures.Length(log.Last.Sub(log.First))))
	}
	fact("requests", fmt.Sprintf("%s of %s, %s as stored", number(log.Requests), count(log.Lines, "line", "lines"), kib(log.Bytes)))
	if log.Outside > 0 {
		fact("left out", count(log.Outside, "request before or after the time asked for", "requests before or after the time asked for"))
	}
	if log.Late > 0 {
		fact("late", count(log.Late, "line came too late to be sorted, and was", "lines came too late to be sorted, and were")+
			" replayed at the time of those around; a longer slack would sort them")
	}
	if log.Malformed > 0 {
		fact("malformed", fmt.Sprintf("%s (%s), not replayed", count(log.Malformed, "line", "lines"), share(log.Malformed, log.Lines)))
	}
	return section{ID: "read", Title: "What was read", Blocks: append([]block{facts}, malformed(log)...)}
}

// malformed shows some of the lines that could not be read.
func malformed(log *simulate.Log) []block {
	if len(log.Examples) == 0 {
		return nil
	}
	t := table{Title: "Lines that could not be read", Columns: []column{{Name: "where"}, {Name: "why", Long: true}, {Name: "line", Long: true}}}
	for _, e := range log.Examples {
		t.Rows = append(t.Rows, cells(fmt.Sprintf("%s:%d", fileName(e.File), e.Line), label.Line(e.Reason), label.Line(e.Text)))
	}
	if more := log.Malformed - int64(len(log.Examples)); more > 0 {
		t.LeftOut = count(more, "more", "more")
	}
	return []block{t}
}

// timeline is what happened when.
type timeline struct {
	Label string
	Start time.Time
	Step  time.Duration
	Lines []timedLine
	words *words
}

// timedLine is one number for each step of time.
type timedLine struct {
	Name   string
	Tone   tone
	Values []int64
}

// newTimeline is of a series. What never happened has no line.
func (n *words) newTimeline(title string, s *simulate.Series) timeline {
	requests := make([]int64, len(s.Allowed))
	for i := range requests {
		requests[i] = s.Allowed[i] + s.Denied[i]
	}
	t := timeline{Label: title, Start: s.Start, Step: time.Duration(s.Step), words: n}
	for _, line := range []timedLine{{"requests", allowed, requests}, {"denied", denied, s.Denied}, {"in shadow", plain, s.Shadowed}} {
		if most(line.Values) > 0 {
			t.Lines = append(t.Lines, line)
		}
	}
	return t
}

// most is the largest of numbers; 0 of none.
func most(numbers []int64) int64 {
	largest := int64(0)
	for _, v := range numbers {
		largest = max(largest, v)
	}
	return largest
}
