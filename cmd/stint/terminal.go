package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
)

// columns is how wide the terminal is that standard output is; 0 if it is none.
func (s *system) columns() int {
	if s.Window == nil {
		return 0
	}
	columns, _ := s.Window()
	return columns
}

// paint returns a text in a colour, where colours are wanted.
func (s *system) paint(colour, text string) string {
	if !s.Colour || s.columns() == 0 {
		return text
	}
	return colour + text + plainText
}

// Sequences that terminals understand. The colours are those that most people can tell apart.
const (
	blue      = "\x1b[34m"
	yellow    = "\x1b[33m"
	red       = "\x1b[31m"
	bold      = "\x1b[1m"
	plainText = "\x1b[0m"

	clearLine = "\x1b[K"
	clearRest = "\x1b[J"
	upLines   = "\x1b[%dA"
)

// confirm asks a question on a terminal, and reports whether the answer is yes. Elsewhere nobody is there to answer: whoever
// wrote the script has made up their mind.
func (s *system) confirm(question string) (bool, error) {
	if !s.Asks {
		return true, nil
	}
	fmt.Fprintf(s.Stderr, "%s [y/N] ", oneLine(question))
	line, err := bufio.NewReader(io.LimitReader(s.Stdin, 256)).ReadString('\n')
	if err != nil && err != io.EOF {
		return false, fmt.Errorf("standard input: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// The size of terminals that do not say.
const (
	usualColumns = 80
	usualRows    = 24
)

// terminalWindow returns what [system.Window] is for a file.
func terminalWindow(f *os.File) func() (columns, rows int) {
	if !isTerminal(f) {
		return nil
	}
	return func() (columns, rows int) {
		columns, rows = windowSize(f)
		return cmp.Or(columns, usualColumns), cmp.Or(rows, usualRows)
	}
}
