package layout

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestFigures: the figures of speed in README.md, and at the top of docs/benchmarks.md, are those
// of the tables that the benchmarks wrote, rounded.
func TestFigures(t *testing.T) {
	measured := tableAfter(readPage(t, "bench/results.md"), "### Redis, decisions a second, 64 callers")
	if measured["hot key allowed"]["stint"] == 0 {
		t.Fatal("bench/results.md has no decisions a second for 64 callers")
	}
	rows := map[string]string{
		"one hot key, allowed":         "hot key allowed",
		"one hot key, denied":          "hot key denied",
		"100,000 keys, allowed":        "100,000 keys allowed",
		"the same, three windows each": "the same, three windows",
	}
	for page, shown := range map[string]map[string]map[string]float64{
		"README.md":          tableAfter(readPage(t, "README.md"), "## Speed"),
		"docs/benchmarks.md": tableAfter(readPage(t, "docs/benchmarks.md"), "## In short"),
	} {
		for row, source := range rows {
			for _, column := range []string{"stint", "redis_rate", "ulule", "rueidislimiter"} {
				got, want := shown[row][column], measured[source][column]
				if want == 0 || math.Abs(got-want) > 0.03*want {
					t.Errorf("%s: %s, %s: got %.0f, want %.0f", page, row, column, got, want)
				}
			}
		}
	}
}

var firstNumber = regexp.MustCompile(`\d[\d,.]*`)

// tableAfter returns the first number of every cell of the first table after a text, by row and by
// the first word of the column.
func tableAfter(page, text string) map[string]map[string]float64 {
	_, page, _ = strings.Cut(page, text)
	table := map[string]map[string]float64{}
	var columns []string
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") {
			if columns != nil {
				break
			}
			continue
		}
		cells := strings.Split(line, "|")[1:]
		if columns == nil {
			for _, cell := range cells {
				name, _, _ := strings.Cut(strings.TrimSpace(cell), " (")
				columns = append(columns, name)
			}
			continue
		}
		row := map[string]float64{}
		for i, cell := range cells[1:] {
			if i+1 < len(columns) {
				number := strings.ReplaceAll(firstNumber.FindString(cell), ",", "")
				row[columns[i+1]], _ = strconv.ParseFloat(number, 64)
			}
		}
		table[strings.TrimSpace(cells[0])] = row
	}
	return table
}
