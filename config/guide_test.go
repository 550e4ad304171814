package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// guideExamples returns every example in the guide and the README, by the line that it begins in.
// One that is a part of a configuration is made whole.
func guideExamples(t *testing.T) map[string]string {
	t.Helper()
	examples := map[string]string{}
	addExamples(t, examples, guideFile)
	if len(examples) < 10 {
		t.Fatalf("only %d examples found in %s", len(examples), guideFile)
	}
	addExamples(t, examples, "../README.md")
	return examples
}

func addExamples(t *testing.T, examples map[string]string, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	name := "" // of the example that the line is in
	line := 0
	for l := range strings.Lines(string(text)) {
		line++
		switch {
		case l == "```yaml\n":
			name = fmt.Sprintf("the example in line %d of %s", line, file)
		case l == "```\n" && name != "":
			if !strings.Contains(examples[name], "tiers:") {
				examples[name] += base
			}
			name = ""
		case name != "":
			examples[name] += l
		}
	}
}

func TestGuide(t *testing.T) {
	for name, text := range guideExamples(t) {
		if _, err := Parse("example.yaml", []byte(text)); err != nil {
			t.Errorf("%s:\n%v", name, err)
		}
	}
}
