package report

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stint-limiter/stint/internal/figures"
)

// table holds rows of cells under headings. Without headings, it is a list of names and values.
type table struct {
	Title   string
	Columns []column
	Rows    [][]cell
	// LeftOut describes what the rows leave out, or is "".
	LeftOut string
}

type column struct {
	Name string
	// Number aligns the cells to the right.
	Number bool
	// Long marks a column of names, which may be shortened if the table is too wide.
	Long bool
	// Verbatim marks a column of strings that readers search for in a log. If they are shortened,
	// no ellipsis is added.
	Verbatim bool
	// Spare is the order in which columns are dropped if the table is too wide even with shortened
	// names: the column with the highest Spare is dropped first. A column with a Spare of 0 is
	// never dropped.
	Spare int
}

// cell holds text, a bar or a small chart.
type cell struct {
	Text string
	Tone tone
	// If Drawn is set, the cell is a bar for Share, which is full at 1. If Heights is not empty,
	// the cell is a chart with a bar for each height.
	Drawn   bool
	Share   float64
	Heights []int64
}

// tone is the meaning of a color. It is a CSS class on the page, and it selects a color on a
// terminal.
type tone string

const (
	plain   tone = ""
	allowed tone = "allowed"
	denied  tone = "denied"
)

// deniedCell returns a cell with a number of denials. The number is colored unless it is 0.
func deniedCell(n int64) cell {
	if n == 0 {
		return cell{Text: "0"}
	}
	return cell{Text: figures.Number(n), Tone: denied}
}

// bar returns a cell with a bar that shows part as a share of whole. The bar is empty if whole is
// 0.
func bar(part, whole int64, color tone) cell {
	c := cell{Drawn: true, Tone: color}
	if whole != 0 {
		c.Share = float64(part) / float64(whole)
	}
	return c
}

func cells(texts ...string) []cell {
	row := make([]cell, len(texts))
	for i, text := range texts {
		row[i].Text = text
	}
	return row
}

// leaveOut records that the rows leave out n items. It sets LeftOut to the number and a text: one
// is the text for 1, and many is the text for any larger number. If n is 0, it does nothing.
func (t *table) leaveOut(n int64, one, many string) {
	if n > 0 {
		t.LeftOut = count(n, one, many)
	}
}

// Headed reports whether the table has headings.
func (t table) Headed() bool {
	return slices.ContainsFunc(t.Columns, func(c column) bool { return c.Name != "" })
}

// without returns the table, minus any of the named columns that no row uses.
func (t table) without(unused ...string) table {
	for _, name := range unused {
		for i, c := range t.Columns {
			if c.Name == name && !t.used(i) {
				t = t.cut(i)
				break
			}
		}
	}
	return t
}

// used reports whether a column has any cell that is neither empty nor 0.
func (t *table) used(column int) bool {
	for _, row := range t.Rows {
		if c := row[column]; c.Drawn || len(c.Heights) > 0 || c.Text != "" && c.Text != "0" {
			return true
		}
	}
	return false
}

// cut returns a copy of the table without the given column.
func (t table) cut(column int) table {
	rows := make([][]cell, len(t.Rows))
	for i, row := range t.Rows {
		rows[i] = slices.Delete(slices.Clone(row), column, column+1)
	}
	t.Rows = rows
	t.Columns = slices.Delete(slices.Clone(t.Columns), column, column+1)
	return t
}

const (
	barWidth = 16
	gap      = 2
	// leastName is the smallest width to which a column of names is reduced.
	leastName = 14
)

func (t table) empty() bool { return len(t.Rows) == 0 }

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

func (t *table) row(p *printer, widths []int, row []cell) {
	line := indent
	for i, c := range row {
		text := shortened(c.draw(), widths[i], t.Columns[i].Verbatim)
		blanks := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
		full := strings.TrimRight(text, figures.Empty)
		painted := p.paint(colorOf(c.Tone), full) + text[len(full):]
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

// sentences writes a row of a table without headings. The last cell may take several lines.
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

// fitted returns the table without the columns that do not fit into the given width, and the widths
// of the remaining columns. A width of 0 fits all columns.
func (t table) fitted(width int) (table, []int) {
	for {
		widths := t.natural()
		over := len(indent) - gap - width
		for _, w := range widths {
			over += w + gap
		}
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

// natural returns the widths of the columns if no cell is shortened.
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

// shorten reduces the sum of widths by over characters, which it takes from the widest columns of
// names. It reports whether this was possible.
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

// draw returns the content of a cell as text.
func (c *cell) draw() string {
	switch {
	case c.Drawn:
		return figures.Bar(c.Share, barWidth)
	case len(c.Heights) > 0:
		return "▕" + figures.Heights(c.Heights) + "▏"
	}
	return c.Text
}

// shortened cuts text to the given width. It ends with an ellipsis if it was cut, unless verbatim
// is set.
func shortened(text string, width int, verbatim bool) string {
	switch {
	case utf8.RuneCountInString(text) <= width:
		return text
	case verbatim:
		return string([]rune(text)[:width])
	}
	return string([]rune(text)[:max(width-1, 0)]) + "…"
}
