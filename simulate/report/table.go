package report

import "slices"

// table is rows of cells under headings. Without headings it is a list of names and values.
type table struct {
	Title   string
	Columns []column
	Rows    [][]cell
	// LeftOut is what is not among the rows, or "".
	LeftOut string
}

// column is how the cells of a table below each other are shown.
type column struct {
	Name string
	// Number is for what is aligned to the right.
	Number bool
	// Long is for names: they may be shortened where there is little room.
	Long bool
	// Spare is for what is left away where there is less room still: first what can best be spared, which has the
	// highest number. 0 is never.
	Spare int
}

// cell is a text, or a drawing.
type cell struct {
	Text string
	// Tone is how it is meant.
	Tone tone
	// Drawn says that Share is drawn as a bar, full at 1. Heights are drawn as columns beside each other, if there are any.
	Drawn   bool
	Share   float64
	Heights []int64
}

// tone is how something is meant: the name of a class on a page, and a colour at a terminal.
type tone string

const (
	plain   tone = ""
	allowed tone = "allowed"
	denied  tone = "denied"
)

// deniedCell is a number of denials, which stands out unless it is 0.
func deniedCell(n int64) cell {
	if n == 0 {
		return cell{Text: "0"}
	}
	return cell{Text: number(n), Tone: denied}
}

// cells are plain texts.
func cells(texts ...string) []cell {
	row := make([]cell, len(texts))
	for i, text := range texts {
		row[i].Text = text
	}
	return row
}

// Headed reports whether the table has headings.
func (t table) Headed() bool {
	return slices.ContainsFunc(t.Columns, func(c column) bool { return c.Name != "" })
}

// without returns the table without the columns in which no row has anything.
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

// used reports whether a column has anything but nothing and zeros.
func (t *table) used(column int) bool {
	for _, row := range t.Rows {
		if c := row[column]; c.Drawn || len(c.Heights) > 0 || c.Text != "" && c.Text != "0" {
			return true
		}
	}
	return false
}

// cut returns the table without a column. The table itself stays as it is.
func (t table) cut(column int) table {
	rows := make([][]cell, len(t.Rows))
	for i, row := range t.Rows {
		rows[i] = slices.Delete(slices.Clone(row), column, column+1)
	}
	t.Rows = rows
	t.Columns = slices.Delete(slices.Clone(t.Columns), column, column+1)
	return t
}
