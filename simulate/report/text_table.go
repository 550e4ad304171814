package report

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stint-limiter/stint/internal/figures"
)

const (
	// barWidth is how wide a bar in a table is.
	barWidth = 16
	// gap is between two columns.
	gap = 2
	// leastName is how far a name is shortened at most.
	leastName = 14
)

func (t table) text(p *printer) {
	if t.Title != "" {
		p.wrapped(boldText, indent, t.Title)
	}
	t, widths := t.fitted(p.width)
	if t.Headed() {
		row := make([]cell, len(t.Columns))
		for i, c := range t.Columns {
			row[i].Text = strings.ToUpper(c.Name)
		}
		t.row(p, widths, row)
	}
	for _, row := range t.Rows {
		if t.Headed() {
			t.row(p, widths, row)
		} else {
			t.sentences(p, widths, row)
		}
	}
	if t.LeftOut != "" {
		p.wrapped("", indent, "… "+t.LeftOut)
	}
}

// row writes one line.
func (t *table) row(p *printer, widths []int, row []cell) {
	line := indent
	for i, c := range row {
		text := shortened(c.draw(), widths[i])
		blanks := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
		full := strings.TrimRight(text, figures.Empty)
		painted := p.paint(colourOf(c.Tone), full) + text[len(full):]
		if t.Columns[i].Number {
			painted = blanks + painted
		} else if i < len(row)-1 {
			painted += blanks
		}
		if i > 0 {
			line += strings.Repeat(" ", gap)
		}
		line += painted
	}
	p.line(line)
}

// sentences writes a line of a table without headings, and as many more as its last cell needs.
func (t *table) sentences(p *printer, widths []int, row []cell) {
	last := len(row) - 1
	for i, text := range wrap(row[last].Text, widths[last]) {
		row = slices.Clone(row)
		if i > 0 {
			row = make([]cell, len(row))
		}
		row[last].Text = text
		t.row(p, widths, row)
	}
}

// fitted returns the table with as many columns as fit, and how wide they are. Without a width all fit.
func (t table) fitted(width int) (table, []int) {
	for {
		widths := t.natural()
		over := sum(widths) + gap*(len(widths)-1) + len(indent) - width
		if width == 0 || over <= 0 {
			return t, widths
		}
		if t.shorten(widths, over) {
			return t, widths
		}
		spare := 0
		for i, c := range t.Columns {
			if c.Spare > t.Columns[spare].Spare {
				spare = i
			}
		}
		if t.Columns[spare].Spare == 0 {
			return t, widths
		}
		t = t.cut(spare)
	}
}

// natural is how wide the columns are with all that is in them.
func (t *table) natural() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = utf8.RuneCountInString(c.Name)
		for _, row := range t.Rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].draw()))
		}
	}
	return widths
}

// shorten takes so much away from the widest columns of names, and reports whether there was enough.
func (t *table) shorten(widths []int, over int) bool {
	for ; over > 0; over-- {
		widest := -1
		for i, c := range t.Columns {
			if c.Long && widths[i] > leastName && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
	return true
}

// draw is what a cell looks like in characters.
func (c *cell) draw() string {
	switch {
	case c.Drawn:
		return figures.Bar(c.Share, barWidth)
	case len(c.Heights) > 0:
		return "▕" + figures.Heights(c.Heights) + "▏"
	}
	return c.Text
}

// shortened is a text of a width at most, with a sign where something is missing.
func shortened(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(width-1, 0)]) + "…"
}

func sum(numbers []int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}
