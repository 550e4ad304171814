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

// columns returns the width of the terminal that is standard output, or 0 if it is not a terminal.
func (s *system) columns() int {
	if s.Window == nil {
		return 0
	}
	columns, _ := s.Window()
	return columns
}

// paint returns text in a color if output is colored. It writes a random mark before each color
// sequence, so that [system.render] can distinguish the sequence from sequences in untrusted text.
func (s *system) paint(color, text string) string {
	if !s.Color || s.columns() == 0 {
		return text
	}
	if s.mark == "" {
		s.mark = rand.Text()
	}
	return s.mark + color + text + s.mark + plainText
}

// render makes text safe to write to a terminal or a log. It keeps line breaks, tabs and the color
// sequences that paint wrote, and escapes all other unprintable characters. Text from arguments,
// files, servers and Redis may contain sequences that move the cursor or hide other text.
func (s *system) render(text []byte) []byte {
	if s.mark == "" {
		return escape(text)
	}
	var b []byte
	for i, part := range bytes.Split(text, []byte(s.mark)) {
		if i > 0 {
			end := bytes.IndexByte(part, 'm') + 1 // color sequences end with an m
			b, part = append(b, part[:end]...), part[end:]
		}
		b = append(b, escape(part)...)
	}
	return b
}

// escape escapes unprintable characters. Except for bytes that are not UTF-8, the escapes are also
// valid inside JSON.
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

// unprintable reports whether a character must not be sent to a terminal unchanged.
func unprintable(r rune) bool {
	return r == utf8.RuneError || r != '\n' && r != '\t' && !unicode.IsPrint(r)
}

type escaped struct{ io.Writer }

func (w escaped) Write(text []byte) (int, error) {
	if _, err := w.Writer.Write(escape(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Terminal control sequences. Most color-blind people can distinguish these colors.
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

// confirm asks a question on a terminal unless yes is true, and returns an error unless the answer
// is yes. Without a terminal, it asks nothing, because a script needs no confirmation.
func (s *system) confirm(yes bool, question string) error {
	if yes || !s.Asks {
		return nil
	}
	fmt.Fprintf(s.errors(), "%s [y/N] ", oneLine(question))
	line, err := bufio.NewReader(io.LimitReader(s.Stdin, 256)).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	failed := err != nil && err != io.EOF
	if !failed && (answer == "y" || answer == "yes") {
		return nil
	}
	fmt.Fprintln(s.errors(), "stint: nothing was changed")
	if failed {
		return fmt.Errorf("standard input: %w", err)
	}
	return errReported
}

// The assumed size of a terminal that does not report its size.
const (
	usualColumns = 80
	usualRows    = 24
)

// terminalWindow returns the value of system.Window for a file.
func terminalWindow(f *os.File) func() (columns, rows int) {
	if !isTerminal(f) {
		return nil
	}
	return func() (columns, rows int) {
		columns, rows = windowSize(f)
		return cmp.Or(columns, usualColumns), cmp.Or(rows, usualRows)
	}
}
