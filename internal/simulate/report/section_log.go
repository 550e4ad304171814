package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/simulate"
)

func (b *builder) read(r *simulate.Result) section {
	log := &r.Log
	facts := table{Columns: []column{{}, {Long: true}}}
	fact := func(name, text string) { facts.Rows = append(facts.Rows, cells(name, text)) }
	if !log.First.IsZero() {
		fact("time", fmt.Sprintf("%s to %s UTC, %s",
			fullTime(log.First), fullTime(log.Last), figures.Length(log.Last.Sub(log.First))))
	}
	fact("requests", fmt.Sprintf("%s of %s, %s as stored",
		figures.Number(log.Requests), count(log.Lines, "line", "lines"), size(log.Bytes)))
	if log.Outside > 0 {
		fact("left out", count(log.Outside, "request", "requests")+" outside the requested time")
	}
	if log.Late > 0 {
		fact("late", count(log.Late, "line was", "lines were")+
			" too far out of order to be sorted, and replayed at the time of neighboring lines; "+
			"more slack would sort them")
	}
	if log.Malformed > 0 {
		fact("malformed", fmt.Sprintf("%s (%s of all lines), not replayed",
			count(log.Malformed, "line", "lines"), share(log.Malformed, log.Lines)))
	}
	return section{ID: "read", Title: "What was read", Blocks: []block{facts, malformed(log)}}
}

func malformed(log *simulate.Log) table {
	t := table{Title: "Lines that could not be read", Columns: []column{
		{Name: "where"}, {Name: "why", Long: true}, {Name: "line", Long: true, Verbatim: true},
	}}
	for _, e := range log.Examples {
		where := fmt.Sprintf("%s:%d", fileName(e.File), e.Line)
		text := e.Text
		if strings.ContainsFunc(text, func(c rune) bool { return !strconv.IsPrint(c) }) {
			text = label.Line(text)
		}
		t.Rows = append(t.Rows, cells(where, label.Line(e.Reason), text))
	}
	t.leaveOut(log.Malformed-int64(len(log.Examples)), "more", "more")
	return t
}
