package report_test

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stint-limiter/stint/internal/golden"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/report"
)

var update = flag.Bool("update", false, "write the golden files in testdata")

var names = report.Names{Config: "conf/stint.yaml", Logs: []string{"/var/log/access.log"}}

func TestText(t *testing.T) {
	both := report.Names{Config: "new.yaml", Against: "old.yaml", Logs: []string{"a.log", "b.log"}}
	for _, test := range []struct {
		golden string
		result *simulate.Result
		names  report.Names
		to     report.Terminal
	}{
		{"nothing.txt", &simulate.Result{}, report.Names{}, report.Terminal{}},
		{"small.txt", small(), report.Names{Config: "-", Logs: []string{"-"}}, report.Terminal{}},
		{"busy.txt", busy(), names, report.Terminal{}},
		{"busy_80.txt", busy(), names, report.Terminal{Width: 80}},
		{"compared.txt", compared(), both, report.Terminal{}},
		{"recommended_color.txt", recommended(), names, report.Terminal{Width: 110, Color: true}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			got := string(report.New(test.result, test.names).Text(test.to))
			golden.Compare(t, *update, test.golden, strings.ReplaceAll(got, "\x1b", "ESC"))
		})
	}
}

// TestGuide: docs/simulate.md shows what the example needs.
func TestGuide(t *testing.T) {
	if testing.Short() {
		t.Skip("replays 100,000 lines")
	}
	const page = "../../../docs/simulate.md"
	doc, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(report.New(replayed(t, 100_000), names).Text(report.Terminal{}))
	_, size, _ := strings.Cut(text, "\nWhat it takes of Redis\n")
	size, _, _ = strings.Cut(size, "\n\n")
	shown := regexp.MustCompile("(?s)\nWhat it takes of Redis\n.*?\n```")
	want := shown.ReplaceAllLiteralString(string(doc), "\nWhat it takes of Redis\n"+size+"\n```")
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(doc) != want {
		t.Errorf("%s does not show this (go test . -update writes it):\n%s", page, size)
	}
}

// TestOthers: the first sentence counts the denials of subjects that are not counted separately
// apart.
func TestOthers(t *testing.T) {
	r := &simulate.Result{Outcome: simulate.Outcome{
		Total:    simulate.Count{Requests: 1200, Allowed: 100, Denied: 1100},
		Subjects: simulate.Subjects{Seen: 5, Hit: 4, Cap: 5, Others: simulate.Count{Requests: 1050, Denied: 1050}},
	}}
	const want = "1,100 of 1,200 requests (91.7 %): those of 4 of the first 5 subjects,\nand 1,050 of others.\n"
	if got := string(report.New(r, names).Text(report.Terminal{})); !strings.Contains(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestWidth: no line is wider than the terminal.
func TestWidth(t *testing.T) {
	for _, r := range []*simulate.Result{small(), busy(), compared(), recommended()} {
		for _, width := range []int{60, 72, 80, 100, 133, 200} {
			text := string(report.New(r, report.Names{Config: "new.yaml",
				Against: "old.yaml"}).Text(report.Terminal{Width: width}))
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%d characters at a width of %d: %s", n, width, line)
				}
			}
		}
	}
}

// TestTextHostile: no text of a log moves the cursor, breaks a line or changes the writing
// direction.
func TestTextHostile(t *testing.T) {
	text := string(report.New(busy(), names).Text(report.Terminal{}))
	for _, bad := range []string{"\x1b", "\u202e", "\r", "\a"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q is in\n%s", bad, text)
		}
	}
}
