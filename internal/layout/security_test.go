package layout

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// TestNoSecretsOnCommandLines: no example and no page shows a password on a command line, where
// every user of a machine can read it.
func TestNoSecretsOnCommandLines(t *testing.T) {
	shown := regexp.MustCompile(`--(store|alert-webhook)[ =]'?[a-z]+://[^ /@]*:[^ /@]+@`)
	kinds := []string{".md", ".yaml", ".go", ".service", ".conf", ".cfg", ".lua", ""}
	for _, name := range testkit.Files(t, root) {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/") || !slices.Contains(kinds, path.Ext(name)) {
			continue
		}
		if found := shown.FindString(readPage(t, name)); found != "" {
			t.Errorf("%s shows %s", name, found)
		}
	}
}

// TestSecurityPage: every test and every row of docs/faults.md that SECURITY.md names exists.
func TestSecurityPage(t *testing.T) {
	page, faults := readPage(t, "SECURITY.md"), readPage(t, "docs/faults.md")
	var tests strings.Builder
	for _, name := range testkit.Files(t, root) {
		if strings.HasSuffix(name, "_test.go") {
			tests.WriteString(readPage(t, name))
		}
	}
	named := regexp.MustCompile(`\bF[0-9]+[a-z]?\b|\b(Test|Fuzz)[A-Z]\w+`).FindAllString(page, -1)
	if len(named) < 10 {
		t.Fatalf("found the names %q", named)
	}
	for _, name := range named {
		want := "func " + name
		if name[1] >= '0' && name[1] <= '9' {
			want = "func Test" + name
		}
		if !regexp.MustCompile(want+`\D`).MatchString(tests.String()) && !regexp.MustCompile(`\b`+name+`\b`).MatchString(faults) {
			t.Errorf("there is no test %s", name)
		}
	}
}
