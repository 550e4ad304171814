package layout

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stint-limiter/stint/internal/testkit"
)

// TestLinks: every relative link and picture in Markdown leads to a file that exists, and every
// anchor to a heading of it.
func TestLinks(t *testing.T) {
	pages := map[string]string{} // by file name
	for _, name := range testkit.Files(t, root) {
		if strings.HasSuffix(name, ".md") {
			pages[name] = readPage(t, name)
		}
	}
	for name, text := range pages {
		for _, l := range links(text) {
			file, anchor := resolve(name, l.target)
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s:%d: %s: there is no %s", name, l.line, l.target, file)
				continue
			}
			if text, isPage := pages[file]; anchor != "" && (!isPage || !slices.Contains(anchors(text), anchor)) {
				t.Errorf("%s:%d: %s: %s has no heading #%s", name, l.line, l.target, file, anchor)
			}
		}
	}
}

// TestIndex: docs/README.md links to every page in docs, so that there is a way to each.
func TestIndex(t *testing.T) {
	const index = "docs/README.md"
	linked := map[string]bool{index: true}
	for _, l := range links(readPage(t, index)) {
		file, _ := resolve(index, l.target)
		linked[file] = true
	}
	pages := testkit.Must(filepath.Glob(filepath.Join(root, "docs", "*.md")))(t)
	for _, page := range pages {
		if name := "docs/" + filepath.Base(page); !linked[name] {
			t.Errorf("%s does not link to %s", index, name)
		}
	}
}

// TestDesignNamesFiles: every file that docs/design.md names exists, so that its walks stay true.
func TestDesignNamesFiles(t *testing.T) {
	named := regexp.MustCompile("`([a-z/]+[a-z_0-9]+\\.(?:go|lua|js))`")
	for _, match := range named.FindAllStringSubmatch(readPage(t, "docs/design.md"), -1) {
		if _, err := os.Stat(filepath.Join(root, match[1])); err != nil {
			t.Errorf("docs/design.md names a file that does not exist: %s", match[1])
		}
	}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text := testkit.Must(os.ReadFile(filepath.Join(root, name)))(t)
	return string(text)
}

// link is a relative link.
type link struct {
	line   int
	target string
}

var (
	linkForm = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"`)
	codeSpan = regexp.MustCompile("`[^`]*`")
	absolute = regexp.MustCompile(`^[a-z]+:`)
)

// links returns the relative links and pictures of a page.
func links(text string) []link {
	var found []link
	eachLine(text, func(number int, line string) {
		for _, match := range linkForm.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, "`"), -1) {
			if target := match[1] + match[2]; !absolute.MatchString(target) {
				found = append(found, link{number, target})
			}
		}
	})
	return found
}

var (
	heading  = regexp.MustCompile(`^#{1,6} +(.*)`)
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchors returns the anchors of the headings of a page, as GitHub makes them.
func anchors(text string) []string {
	var found []string
	count := map[string]int{}
	eachLine(text, func(_ int, line string) {
		match := heading.FindStringSubmatch(line)
		if match == nil {
			return
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(linkText.ReplaceAllString(match[1], "$1")))
		if n := count[anchor]; n > 0 {
			found = append(found, fmt.Sprintf("%s-%d", anchor, n))
		} else {
			found = append(found, anchor)
		}
		count[anchor]++
	})
	return found
}

// eachLine calls f with the lines of a page that are not code.
func eachLine(text string, f func(number int, line string)) {
	code, number := false, 0
	for line := range strings.Lines(text) {
		number++
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			code = !code
		} else if !code {
			f(number, strings.TrimSuffix(line, "\n"))
		}
	}
}

// resolve returns the file that a link of a page leads to, and the anchor in it.
func resolve(page, target string) (file, anchor string) {
	file, anchor, _ = strings.Cut(target, "#")
	if file == "" {
		return page, anchor
	}
	return path.Join(path.Dir(page), file), anchor
}
