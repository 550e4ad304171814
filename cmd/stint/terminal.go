package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// columns is how wide the terminal is that standard output is; 0 if it is none.
func (s *system) columns() int {
	if s.Window == nil {
		return 0
	}
	columns, _ := s.Window()
	return columns
}

// paint returns a text in a colour, where colours are wanted. Each sequence is after a mark that nobody else can know, by which
// [system.render] tells it from those in texts of others.
func (s *system) paint(colour, text string) string {
	if !s.Colour || s.columns() == 0 {
		return text
	}
	if s.mark == "" {
		s.mark = rand.Text()
	}
	return s.mark + colour + text + s.mark + plainText
}

// render returns a text as it may be written to a terminal or a log: what paint has added sets colours, line breaks and tabs
// stay, and everything else that is no printable character is escaped. All that commands write goes through it, because
// arguments, files, servers and Redis may hold sequences that move the cursor or hide text.
func (s *system) render(text []byte) []byte {
	if s.mark == "" {
		return escape(text)
	}
	var b []byte
	for i, part := range bytes.Split(text, []byte(s.mark)) {
		if i > 0 {
			end := bytes.IndexByte(part, 'm') + 1 // colours end with one
			b, part = append(b, part[:end]...), part[end:]
		}
		b = append(b, escape(part)...)
	}
	return b
}

// escape escapes what is not printable, in a form that is good inside JSON too.
func escape(text []byte) []byte {
	if !bytes.ContainsFunc(text, unprintable) {
		return text
	}
	var b []byte
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1:
			b = fmt.Appendf(b, `\x%02x`, text[0])
		case !unprintable(r):
			b = append(b, text[:n]...)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				b = fmt.Appendf(b, `\u%04x`, unit)
			}
		}
		text = text[n:]
	}
	return b
}

// unprintable reports whether a terminal must not be given a character as it is. That of half a character is one of them.
func unprintable(r rune) bool {
	return r == utf8.RuneError || r != '\n' && r != '\t' && !unicode.IsPrint(r)
}

// escaped is a writer of what is not painted.
type escaped struct{ io.Writer }

// Write implements [io.Writer].
func (w escaped) Write(text []byte) (int, error) {
	if _, err := w.Writer.Write(escape(text)); err != nil {
		return 0, err
	}
	return len(text), nil
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
	fmt.Fprintf(s.errors(), "%s [y/N] ", oneLine(question))
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
