package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMarkdownParagraphs: in Markdown a paragraph or an item of a list is one line, so that a
// changed word changes one line and no file needs to be wrapped again.
func TestMarkdownParagraphs(t *testing.T) {
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".md") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range wrapped(string(text)) {
			t.Errorf("%s:%d: continues the line before: want a paragraph in one line", name, n)
		}
		if strings.Contains(string(text), "\n<<<<<<< ") {
			t.Errorf("%s: a conflict of a merge is not resolved", name)
		}
	})
}

// TestDesignNamesFiles: every file that docs/design.md names exists, so that its walks stay true.
func TestDesignNamesFiles(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/design.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile("`([a-z/]+[a-z_0-9]+\\.(?:go|lua|js))`").FindAllSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(root, string(match[1]))); err != nil {
			t.Errorf("docs/design.md names a file that does not exist: %s", match[1])
		}
	}
}

func TestWrapped(t *testing.T) {
	tests := []struct {
		name, text string
		want       []int
	}{
		{"paragraphs", "# Title\nOne.\n\nTwo.\n", nil},
		{"a wrapped paragraph", "One\ntwo\nthree.\n", []int{2, 3}},
		{"a list", "List:\n- one\n- two\n\n1. three\n", nil},
		{"a wrapped item", "- one\n  two\n", []int{2}},
		{"a paragraph in an item", "- one\n\n  two\n", nil},
		{"a table", "Table:\n| a |\n|---|\n| b |\n", nil},
		{"code", "Code:\n```\na\nb\n```\nText.\n", nil},
		{"indented code", "Code:\n\n    a\n    b\n", nil},
		{"HTML", "<picture>\n  <img\n    src=x>\n</picture>\n", nil},
		{"a comment", "<!-- one\ntwo -->\n", nil},
	}
	for _, test := range tests {
		if got := wrapped(test.text); !slices.Equal(got, test.want) {
			t.Errorf("%s: got lines %v, want %v", test.name, got, test.want)
		}
	}
}

var (
	// apart matches what is not part of a paragraph: headings, tables, HTML, quotes, rules, and
	// definitions of links.
	apart    = regexp.MustCompile(`^\s*(#{1,6} |\||<|>|---|\[[^\]]+\]: )`)
	listItem = regexp.MustCompile(`^\s*([-*+]|\d+[.)]) `)
)

// wrapped returns the numbers of the lines that continue a paragraph or an item of a list.
func wrapped(text string) []int {
	var numbers []int
	code, html, open := false, false, false // open: a paragraph or an item has begun
	number := 0
	for line := range strings.Lines(text) {
		number++
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			code, open = !code, false
		case code:
		case html:
			html = trimmed != "" && !strings.HasSuffix(trimmed, "-->")
		case trimmed == "":
			open = false
		case apart.MatchString(line):
			open, html = false, strings.HasPrefix(trimmed, "<") && !strings.HasSuffix(trimmed, "-->")
		case listItem.MatchString(line):
			open = true
		case open:
			numbers = append(numbers, number)
		default:
			open = !strings.HasPrefix(line, "    ")
		}
	}
	return numbers
}
