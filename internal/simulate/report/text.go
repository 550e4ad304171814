package report

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Terminal describes where text is displayed.
type Terminal struct {
	// Width is the number of characters per line. 0 means no limit, as for a file: nothing is
	// shortened or omitted.
	Width int
	// Color allows escape sequences for colors.
	Color bool
}

const (
	// paperWidth is the maximum width of sentences.
	paperWidth = 100
	// leastWidth is the minimum width of lines; narrower terminals wrap them.
	leastWidth = 60
	indent     = "  "
)

// Text returns the report as plain text.
func (r *Report) Text(to Terminal) []byte {
	p := &printer{width: to.Width, color: to.Color}
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

// printer writes text with at most width characters per line.
type printer struct {
	out   bytes.Buffer
	width int // 0 means no limit
	color bool
}

const (
	boldText   = "\x1b[1m"
	blueText   = "\x1b[34m"
	yellowText = "\x1b[33m"
	plainText  = "\x1b[0m"
)

func (p *printer) paint(color, text string) string {
	if !p.color || color == "" || strings.TrimSpace(text) == "" {
		return text
	}
	return color + text + plainText
}

func colorOf(t tone) string {
	switch t {
	case allowed:
		return blueText
	case denied:
		return yellowText
	}
	return ""
}

// line writes one line without trailing spaces.
func (p *printer) line(text string) {
	p.out.WriteString(strings.TrimRight(text, " "))
	p.out.WriteByte('\n')
}

// room returns the width that remains to the right of a margin.
func (p *printer) room(margin int) int {
	if p.width == 0 {
		return paperWidth - margin
	}
	return p.width - margin
}

// wrapped writes text, broken into lines that fit.
func (p *printer) wrapped(color, margin, text string) {
	for _, line := range wrap(text, min(p.room(len(margin)), paperWidth)) {
		p.line(margin + p.paint(color, line))
	}
}

// wrap breaks text at spaces into lines of at most width characters. A word that is longer than
// that gets its own line.
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

func (b paragraph) empty() bool { return b.Text == "" }

func (b paragraph) text(p *printer) { p.wrapped("", indent, b.Text) }
