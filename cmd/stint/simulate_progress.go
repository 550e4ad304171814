package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
)

// redrawn is the interval at which progress is redrawn.
const redrawn = 100 * time.Millisecond

// progress shows how much of a log has been read, if standard error is a terminal.
type progress struct {
	out    io.Writer
	window func() (columns, rows int) // nil without a terminal
	next   time.Time
}

func newProgress(s *system) *progress {
	if file, ok := s.Stderr.(*os.File); ok {
		return &progress{out: file, window: terminalWindow(file)}
	}
	return &progress{}
}

func (p *progress) show(read accesslog.Stats) {
	if p.window == nil || time.Now().Before(p.next) {
		return
	}
	p.next = time.Now().Add(redrawn)
	line := fmt.Sprintf("%d lines", read.Lines)
	if read.Last > 0 {
		line += ", up to " + time.Unix(0, read.Last).UTC().Format("2006-01-02 15:04")
	}
	if read.Total > 0 {
		share := float64(read.Read) / float64(read.Total)
		line = fmt.Sprintf("%s %3d%%  %s", figures.Bar(share, 24), 100*min(read.Read, read.Total)/read.Total, line)
	}
	columns, _ := p.window()
	fmt.Fprint(p.out, "\r"+cut(line, columns-1)+clearLine)
}

func (p *progress) clear() {
	if p.window != nil {
		fmt.Fprint(p.out, "\r"+clearLine)
	}
}
