// Package doctest is for contributors. It has no code, only tests of the documentation: they
// compile, parse or run what its blocks hold, and check the commands in its text. CONTRIBUTING.md
// has the conventions.
package doctest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/internal/testkit"
)

const root = "../.."

// A page is a Markdown file.
type page struct {
	name   string // relative to the root of the repository
	text   string
	blocks []block
}

// A block is what a page has in a fence.
type block struct {
	line        int // of the fence
	language    string
	text        string
	before      []string // commands to run first
	given       []string // Go declarations that it relies on
	notRun      string   // why
	numbersVary bool
}

// pages returns the documentation without what others or generators wrote.
func pages(t *testing.T) []page {
	t.Helper()
	var list []page
	for _, name := range testkit.Files(t, root) {
		if path.Ext(name) != ".md" || name == "CHANGELOG.md" {
			continue
		}
		text := testkit.ReadFile(t, filepath.Join(root, name))
		blocks, err := parseBlocks(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		list = append(list, page{name, text, blocks})
	}
	return list
}

var (
	fence = regexp.MustCompile("^( *)(```+)(.*)$")
	// note is a comment for the tests. It concerns the next block.
	note = regexp.MustCompile(`(?s)^\s*<!-- (before|given|not run|numbers vary):?\s*(.*?)\s*-->\n$`)
)

func parseBlocks(text string) ([]block, error) {
	var list []block
	var next block
	var given []string
	end, indent, comment := "", "", ""
	number := 0
	for line := range strings.Lines(text) {
		number++
		opening := fence.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		switch {
		case end != "" && strings.TrimSpace(line) == end:
			list, next, end = append(list, next), block{}, ""
		case end != "":
			next.text += strings.TrimPrefix(line, indent)
		case comment == "" && opening != nil:
			indent, end, next.language = opening[1], opening[2], opening[3]
			next.line, next.given = number, slices.Clone(given)
		case comment != "" || strings.HasPrefix(strings.TrimSpace(line), "<!-- "):
			comment += line
			if !strings.HasSuffix(line, "-->\n") {
				continue
			}
			if found := note.FindStringSubmatch(comment); found != nil {
				switch found[1] {
				case "before":
					next.before = append(next.before, found[2])
				case "given":
					given = append(given, found[2])
				case "not run":
					next.notRun = found[2]
				case "numbers vary":
					next.numbersVary = true
				}
			}
			comment = ""
		case strings.TrimSpace(line) != "" && (next.notRun != "" || next.numbersVary):
			return nil, errors.New("a comment about a block is not directly before it: " + next.notRun)
		}
	}
	if end != "" || comment != "" {
		return nil, errors.New("a block or a comment does not end")
	}
	return list, nil
}

// languages are those of blocks. The ones below the line are for readers, not for tests.
var languages = []string{
	"go", "console", "sh", "yaml", "json", "lua", "promql",
	// -----
	"text", "caddyfile", "diff", "dockerfile", "haproxy", "http", "ini", "js", "nginx", "python", "toml", "typescript",
}

// TestBlocks: every block has a language, data in it is valid, and a block that is not run has a
// reason.
func TestBlocks(t *testing.T) {
	notRun := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if err := b.check(t); err != nil {
				t.Errorf("%s:%d: %v", p.name, b.line, err)
			}
			if b.notRun != "" {
				notRun++
				t.Logf("%s:%d: not run: %s", p.name, b.line, b.notRun)
			}
		}
	}
	t.Logf("%d blocks are not run", notRun)
}

// shown matches a line that looks like a command.
var shown = regexp.MustCompile(`(?m)^(\$ |stint |make |go |curl )`)

func (b block) check(t *testing.T) error {
	if !slices.Contains(languages, b.language) {
		return errors.New("the language of the block is " + strings.TrimSpace(b.language+" ") +
			"; want one of " + strings.Join(languages, ", "))
	}
	switch runs := b.language == "go" || b.language == "console" || b.language == "sh"; {
	case b.notRun != "" && !runs:
		return errors.New("nothing in this block is run; remove the comment")
	case b.notRun != "" && len(b.notRun) < 8:
		return errors.New("why is it not run?")
	case len(b.before) > 0 && (b.notRun != "" || b.language != "console" && b.language != "sh"):
		return errors.New("<!-- before --> is for blocks that are run")
	case b.language == "console" && b.notRun == "" && !strings.HasPrefix(b.text, "$ "):
		return errors.New("want a command after $ ; output alone is text")
	case b.language == "text" && shown.MatchString(b.text):
		return errors.New("a block with commands is console or sh")
	}
	switch b.language {
	case "yaml":
		return checkYAML(b.text)
	case "json":
		var value any
		return json.Unmarshal([]byte(b.text), &value)
	case "lua":
		program, err := exec.LookPath("luac5.1")
		if err != nil {
			program = "luac"
		}
		return check(t, program, b.text, "-p", "-")
	case "promql":
		rules := "groups: [{name: g, rules: [{record: r, expr: " + strconv.Quote(b.text) + "}]}]"
		return check(t, "promtool", "", "check", "rules", testkit.TempFile(t, "rules.yaml", rules))
	}
	return nil
}

// check runs a program that fails on invalid input.
func check(t *testing.T, program, input string, args ...string) error {
	if testing.Short() {
		return nil
	}
	c := exec.CommandContext(t.Context(), program, args...)
	c.Stdin = strings.NewReader(input)
	if out, err := c.CombinedOutput(); err != nil {
		return errors.New(program + ": " + err.Error() + "\n" + string(out))
	}
	return nil
}

// checkYAML parses a configuration of stint or rules of envoyproxy/ratelimit. Of what its keys say
// is another program's it checks only the syntax.
func checkYAML(text string) error {
	var own struct{ Properties map[string]any }
	if err := json.Unmarshal(config.Schema(), &own); err != nil {
		return err
	}
	others := map[string]string{
		"kind": "Kubernetes", "resources": "kustomize", "scrape_configs": "Prometheus", "groups": "Prometheus",
		"receivers": "Alertmanager", "http_filters": "Envoy", "static_resources": "Envoy",
		"rate_limit_service": "Envoy", "rate_limits": "Envoy", "services": "Compose", "http": "Traefik",
		"config": "the chart of Envoy Gateway",
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var keys map[string]any
		err := decoder.Decode(&keys)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		other, ours := false, false
		for key := range keys {
			other = other || others[key] != ""
			ours = ours || own.Properties[key] != nil
		}
		switch _, whole := keys["tiers"]; {
		case other && !ours:
			continue
		case keys["descriptors"] != nil:
			_, err = envoyrls.Parse("example.yaml", []byte(text))
		case whole:
			_, err = config.Parse("example.yaml", []byte(text))
		default:
			rest := "\ntiers:\n"
			for _, tier := range []string{"free", "pro", "enterprise"} {
				rest += "  - {name: " + tier + ", match: {header: {Plan: " + tier + "}}, identity: ip, limits: 10/1m}\n"
			}
			rest += "  - {name: anonymous, identity: ip, limits: 10/1m}\n"
			_, err = config.Parse("example.yaml", append(bytes.TrimSpace([]byte(text)), rest...))
		}
		return err
	}
}
