package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Sequences that terminals understand. Lines that do not fit are cut, not wrapped,
// or drawing over them would go wrong.
const (
	cutLines  = "\x1b[?7l"
	wrapLines = "\x1b[?7h"
	clearLine = "\x1b[K"
	clearRest = "\x1b[J"
	upLines   = "\x1b[%dA"
)

// screen shows some lines again and again: in the same place ten times a second on
// a terminal, one below the other once a second elsewhere.
type screen struct {
	out      io.Writer
	head     string
	terminal bool
	drawn    int // lines
}

func newScreen(out io.Writer, head string) *screen {
	return &screen{out: out, head: head, terminal: isTerminal(out)}
}

// run shows the head once, and the lines until the context ends, and once after
// that. It fails if there is nobody left to show them to.
func (s *screen) run(ctx context.Context, lines func() []string) error {
	every := time.Second
	head, foot := s.head, ""
	if s.terminal {
		every = 100 * time.Millisecond
		head, foot = cutLines+head, wrapLines
	}
	if _, err := io.WriteString(s.out, head); err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := s.draw(lines()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	if err := s.draw(lines()); err != nil {
		return err
	}
	_, err := io.WriteString(s.out, foot)
	return err
}

func (s *screen) draw(lines []string) error {
	var b strings.Builder
	end := "\n"
	if s.terminal {
		end = clearLine + "\n"
		if s.drawn > 0 {
			fmt.Fprintf(&b, upLines, s.drawn)
		}
	}
	for _, line := range lines {
		b.WriteString(line + end)
	}
	if s.terminal {
		b.WriteString(clearRest)
	} else {
		b.WriteString("\n")
	}
	s.drawn = len(lines)
	_, err := io.WriteString(s.out, b.String())
	return err
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
