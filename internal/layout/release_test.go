package layout

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const workflows = ".github/workflows"

// TestWorkflowsArePinned: what others publish is used by its digest, because a tag can be moved.
// The version of an action stands beside it, which Dependabot updates too.
func TestWorkflowsArePinned(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, workflows, "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no workflows: %v", err)
	}
	named := regexp.MustCompile(`^\s*(?:- )?(uses|container|image): (.*)`)
	pinned := map[string]*regexp.Regexp{
		"uses":      regexp.MustCompile(`^(\./.*|[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$`),
		"container": regexp.MustCompile(`^[\w./:-]+@sha256:[0-9a-f]{64}( # .*)?$`),
		"image":     regexp.MustCompile(`^[\w./:-]+@sha256:[0-9a-f]{64}( # .*)?$`),
	}
	for _, file := range files {
		for line := range strings.Lines(readPage(t, path.Join(workflows, filepath.Base(file)))) {
			found := named.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if found != nil && !pinned[found[1]].MatchString(found[2]) {
				t.Errorf("%s: %q is not pinned by a digest, with its version", filepath.Base(file), strings.TrimSpace(line))
			}
		}
	}
}

// TestReleasesAreAttested: every job that publishes attests what it has built, and may sign that.
func TestReleasesAreAttested(t *testing.T) {
	var release struct {
		Jobs map[string]struct {
			Permissions map[string]string
			Steps       []struct{ Uses string }
		}
	}
	if err := yaml.Unmarshal([]byte(readPage(t, workflows+"/release.yml")), &release); err != nil {
		t.Fatal(err)
	}
	publishing := 0
	for name, job := range release.Jobs {
		can := job.Permissions
		if can["contents"] != "write" && can["packages"] != "write" {
			continue
		}
		publishing++
		if can["id-token"] != "write" || can["attestations"] != "write" || !slices.ContainsFunc(job.Steps,
			func(s struct{ Uses string }) bool { return strings.HasPrefix(s.Uses, "actions/attest@") }) {
			t.Errorf("the job %s publishes what it does not attest", name)
		}
	}
	if publishing != 2 {
		t.Errorf("%d jobs publish, want 2: files and image", publishing)
	}
}

// TestChangelog has the changelog begin with what is not released, and have a date and a link for
// every version: a release publishes its section.
func TestChangelog(t *testing.T) {
	text := readPage(t, "CHANGELOG.md")
	version := regexp.MustCompile(`^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$`)
	var sections []string
	for line := range strings.Lines(text) {
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
		if !strings.Contains(text, "\n["+name+"]: https://") {
			t.Errorf("%s has no link at the end", name)
		}
	}
}
