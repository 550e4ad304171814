package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// guideExamples returns every example in the guide, by the line that it begins in. One that is a
// part of a configuration is made whole.
func guideExamples(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	examples := map[string]string{}
	name := "" // of the example that the line is in
	line := 0
	for l := range strings.Lines(string(text)) {
		line++
		switch {
		case l == "```yaml\n":
			name = fmt.Sprintf("the example in line %d of %s", line, guideFile)
		case l == "```\n" && name != "":
			if !strings.Contains(examples[name], "tiers:") {
				examples[name] += base
			}
			name = ""
		case name != "":
			examples[name] += l
		}
	}
	if len(examples) < 10 {
		t.Fatalf("only %d examples found in %s", len(examples), guideFile)
	}
	return examples
}
