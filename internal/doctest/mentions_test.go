package doctest

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

var (
	inline  = regexp.MustCompile("`([^`\n]+)`")
	mention = regexp.MustCompile(`(?:^|[\s(|&;]|bin/)stint ([a-z][a-z-]*(?: [a-z][a-z-]*)?)([^|&;#]*)`)
	flag    = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
	makes   = regexp.MustCompile(`(?m)(?:^|\$ |&& )make ([a-z][a-z-]*)`)
)

// checkMentions: the commands and flags of stint and the targets of make that the pages mention
// exist.
func checkMentions(t *testing.T, program string) {
	helps := map[string]string{}
	help := func(command ...string) string {
		key := strings.Join(command, " ")
		if _, ok := helps[key]; !ok {
			out, _ := exec.Command(program, append(command, "--help")...).Output() // fails if there is none
			helps[key] = string(out)
		}
		return helps[key]
	}
	makefile := testkit.ReadFile(t, filepath.Join(root, "Makefile"))
	targets := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(makefile, -1) {
		targets[found[1]] = true
	}
	commands, made := 0, 0
	for _, p := range pages(t) {
		texts := strings.Split(strings.Join(inlineOf(p.text), "\n"), "\n")
		for _, b := range p.blocks {
			if b.language == "sh" || b.language == "console" {
				texts = append(texts, strings.Split(strings.ReplaceAll(b.text, "\\\n", " "), "\n")...)
			}
		}
		for _, text := range texts {
			for _, found := range makes.FindAllStringSubmatch(text, -1) {
				if made++; !targets[found[1]] {
					t.Errorf("%s: there is no make %s", p.name, found[1])
				}
			}
			for _, found := range mention.FindAllStringSubmatch(text, -1) {
				words := strings.Fields(found[1])
				usage := help(words...)
				if usage == "" { // the second word may be an argument: stint completion bash
					usage = help(words[0])
					line, _, _ := strings.Cut(usage, "\n")
					if !strings.Contains(line, "<") || strings.Contains(line, "<command>") {
						usage = ""
					}
				}
				commands++
				if usage == "" {
					t.Errorf("%s: there is no command in %q", p.name, text)
				}
				for _, f := range flag.FindAllStringSubmatch(found[2], -1) {
					if !regexp.MustCompile(f[1] + `[\s=,]`).MatchString(usage) {
						t.Errorf("%s: there is no flag %s in %q", p.name, f[1], text)
					}
				}
			}
		}
	}
	if commands < 50 || made < 10 {
		t.Errorf("found only %d commands of stint and %d of make", commands, made)
	}
}

// inlineOf returns the code in the text of a page, outside of blocks.
func inlineOf(text string) (codes []string) {
	open := false
	for line := range strings.Lines(text) {
		if fence.MatchString(strings.TrimSuffix(line, "\n")) {
			open = !open
		}
		for _, found := range inline.FindAllStringSubmatch(line, -1) {
			if !open {
				codes = append(codes, found[1])
			}
		}
	}
	return codes
}
