package report

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Terminal is what a text is written for.
type Terminal struct {
	// Width is how many characters fit on a line; 0 is a file, for which names are not shortened and no column is left
	// away.
	Width int
	// Colour says that colours are wanted, and understood.
	Colour bool
}

const (
	// paperWidth is where sentences end on a page without a width, or a wide one.
	paperWidth = 100
	// leastWidth is that of a terminal that is taken seriously.
	leastWidth = 60
	indent     = "  "
)

// Text returns the report in lines for people.
func (r *Report) Text(to Terminal) []byte {
	p := &printer{width: to.Width, colour: to.Colour}
	if p.width > 0 {
		p.width = max(p.width, leastWidth)
	}
	p.line(p.paint(boldText, r.title))
	p.wrapped("", "", r.lead)
	for _, s := range r.sections {
		p.line("")
		p.line(p.paint(boldText, s.Title))
		for i, b := range s.Blocks {
			if i > 0 {
				p.line("")
			}
			b.text(p)
		}
	}
	return p.out.Bytes()
}

// printer writes text of a width.
type printer struct {
	out    bytes.Buffer
	width  int // 0 is any
	colour bool
}

// Sequences that terminals understand.
const (
	boldText   = "\x1b[1m"
	blueText   = "\x1b[34m"
	yellowText = "\x1b[33m"
	plainText  = "\x1b[0m"
)

// paint returns a text in a colour, where colours are wanted.
func (p *printer) paint(colour, text string) string {
	if !p.colour || colour == "" || strings.TrimSpace(text) == "" {
		return text
	}
	return colour + text + plainText
}

// colourOf is that of what is meant so.
func colourOf(t tone) string {
	switch t {
	case allowed:
		return blueText
	case denied:
		return yellowText
	}
	return ""
}

// line writes one line, without blanks at its end.
func (p *printer) line(text string) {
	p.out.WriteString(strings.TrimRight(text, " "))
	p.out.WriteByte('\n')
}

// room is how wide something may be beside a margin.
func (p *printer) room(margin int) int {
	if p.width == 0 {
		return paperWidth - margin
	}
	return p.width - margin
}

// wrapped writes a text in as many lines as it needs.
func (p *printer) wrapped(colour, margin, text string) {
	for _, line := range wrap(text, min(p.room(len(margin)), paperWidth)) {
		p.line(margin + p.paint(colour, line))
	}
}

// wrap breaks a text into lines between words.
func wrap(text string, width int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, word)
		default:
			*last += " " + word
		}
	}
	return lines
}

func (b paragraph) text(p *printer) {
	p.wrapped("", indent, b.Text)
}
