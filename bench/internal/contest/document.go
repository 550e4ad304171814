package contest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Replace replaces the text in a file between the markers of a name, such as <!-- bench:begin -->
// and <!-- bench:end -->. It creates the file if it does not exist.
func Replace(path, name, body string) error {
	begin, end := "<!-- "+name+":begin -->", "<!-- "+name+":end -->"
	old, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		old, err = []byte(begin+end+"\n"), nil
	}
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(old), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s: want the markers %s and %s", path, begin, end)
	}
	text := head + begin + "\n" + strings.TrimSpace(body) + "\n" + end + tail
	return os.WriteFile(path, []byte(text), 0o644)
}

// Table formats rows of cells under a header as Markdown, aligned so that it is readable in a
// terminal as well. All cells but the first hold numbers and are aligned to the right.
func Table(header []string, rows [][]string) string {
	width := make([]int, len(header))
	for i := range width {
		width[i] = 3 // minimum width of the rule below the header
	}
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	rule := make([]string, len(header))
	for i := range rule {
		rule[i] = strings.Repeat("-", width[i]-1) + ":"
	}
	rule[0] = strings.Repeat("-", width[0])
	var b strings.Builder
	for _, row := range append([][]string{header, rule}, rows...) {
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-len([]rune(cell)))
			if i == 0 {
				b.WriteString("| " + cell + pad + " |")
			} else {
				b.WriteString(" " + pad + cell + " |")
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Number formats a value with about three significant digits.
func Number(v float64) string {
	switch {
	case v == float64(int64(v)) && v < 1e5:
		return fmt.Sprintf("%d", int64(v))
	case v >= 1e5:
		return Count(int64(v))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// Count formats a number in groups of three digits.
func Count(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
