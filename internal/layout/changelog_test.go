package layout

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestChangelog has the changelog begin with what is not released, and have a date and a link for
// every version: a release publishes its section.
func TestChangelog(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$`)
	var sections []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		found := version.FindStringSubmatch(line)
		switch {
		case line == "## [Unreleased]":
			sections = append(sections, "Unreleased")
		case found != nil:
			sections = append(sections, found[1])
		case strings.HasPrefix(line, "## "):
			t.Errorf("the heading %q is no version with a date", line)
		case strings.Contains(line, "](docs/"):
			t.Errorf("the link in %q leads nowhere in the text of a release", line)
		}
	}
	if len(sections) < 2 || sections[0] != "Unreleased" {
		t.Fatalf("got the sections %q, want Unreleased and then versions", sections)
	}
	for _, name := range sections {
		if !strings.Contains(string(text), "\n["+name+"]: https://") {
			t.Errorf("%s has no link at the end", name)
		}
	}
}
