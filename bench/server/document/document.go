// Package document puts what was measured into a document, in place of what was measured before.
package document

import (
	"fmt"
	"os"
	"strings"
)

// Replace replaces what stands in a file between the markers of a name, such as <!-- bench:begin --> and <!-- bench:end -->.
func Replace(path, name, body string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := between(string(old), name, body)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func between(text, name, body string) (string, error) {
	begin, end := "<!-- "+name+":begin -->", "<!-- "+name+":end -->"
	head, rest, ok := strings.Cut(text, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("want the markers %s and %s", begin, end)
	}
	return head + begin + "\n" + strings.TrimSpace(body) + "\n" + end + tail, nil
}

// Table is rows of cells under a header in Markdown, aligned so that it reads in a terminal as well. Numbers, which are
// all but the first cells, stand to the right.
func Table(header []string, rows [][]string) string {
	width := make([]int, len(header))
	for i := range width {
		width[i] = 3 // of the rule
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

// Count is a number in groups of three digits.
func Count(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
