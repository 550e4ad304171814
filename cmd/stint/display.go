package main

import (
	"bytes"
	"fmt"
)

// display shows text that changes. On a terminal, it redraws the text in place. Elsewhere, it
// prints each version below the previous one.
type display struct {
	*system
	drawn int // number of lines that the last version takes on the terminal
}

func (s *display) draw(text []byte) error {
	if s.Window == nil {
		return s.print(append(text, '\n'))
	}
	columns, rows := s.Window()
	var b bytes.Buffer
	if s.drawn > 0 {
		fmt.Fprintf(&b, upLines, s.drawn)
	}
	lines := bytes.Split(bytes.TrimSuffix(s.render(text), []byte("\n")), []byte("\n"))
	// Lines that scroll away cannot be redrawn, and the last row is for the cursor.
	lines = lines[:min(len(lines), max(rows-1, 1))]
	for _, line := range lines {
		b.WriteString(cut(string(line), columns) + plainText + clearLine + "\n")
	}
	b.WriteString(clearRest)
	s.drawn = len(lines)
	return s.write(b.Bytes())
}

// cut shortens line to width columns, because a line that wraps takes two rows and breaks
// redrawing. Color sequences have no width.
func cut(line string, width int) string {
	inside, n := false, 0
	for i, r := range line {
		switch {
		case r == '\x1b':
			inside = true
		case inside:
			inside = r != 'm'
		case n == width:
			return line[:i]
		default:
			n++
		}
	}
	return line
}
