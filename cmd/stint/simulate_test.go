package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/internal/testkit"
)

// smallLog has a caller over the limit, a caller within it, an exempt request, and an unreadable
// line.
const smallLog = `203.0.113.9 - - [02/Mar/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 10 "-" "curl"
203.0.113.9 - - [02/Mar/2026:10:00:01 +0000] "GET /b HTTP/1.1" 200 10 "-" "curl"
203.0.113.9 - - [02/Mar/2026:10:00:02 +0000] "GET /c HTTP/1.1" 200 10 "-" "curl"
203.0.113.9 - - [02/Mar/2026:10:00:03 +0000] "GET /d HTTP/1.1" 429 10 "-" "curl"
198.51.100.7 - ann [02/Mar/2026:10:00:04 +0000] "POST /a HTTP/1.1" 200 10 "-" "Mozilla/5.0"
what is this
198.51.100.7 - ann [02/Mar/2026:10:05:00 +0000] "GET /healthz HTTP/1.1" 200 10 "-" "Mozilla/5.0"
`

const (
	tight = "tiers:\n  - name: everybody\n    identity: ip\n    limits: [2/1m]\npolicies:\n  - name: health\n    match: {path: /healthz}\n    skip: true\n"
	loose = "tiers:\n  - name: everybody\n    identity: ip\n    limits: [3/1m]\n"
)

// simulated makes the test run in a directory with a log, two configurations and the golden files.
func simulated(t *testing.T) {
	t.Helper()
	goldens := testkit.Must(filepath.Abs("testdata"))(t)
	t.Chdir(t.TempDir())
	if err := os.Symlink(goldens, "testdata"); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"access.log": smallLog, "tight.yaml": tight, "loose.yaml": loose} {
		testkit.WriteFile(t, name, text)
	}
}

func TestSimulate(t *testing.T) {
	simulated(t)
	for _, test := range []struct {
		golden string
		stdin  string
		args   []string
	}{
		{"simulate.txt", "", []string{"--config", "tight.yaml", "--max-malformed", "20%", "access.log"}},
		{"simulate_against.txt", "", []string{"--config", "tight.yaml", "--against", "loose.yaml", "access.log"}},
		{"simulate_recommend.txt", smallLog,
			[]string{"--config", "loose.yaml", "--recommend", "50%,100%", "--window", "10s", "-"}},
		{"simulate_from.txt", tight, []string{"--config", "-", "--from", "2026-03-02T10:00:02", "--to",
			"2026-03-02 10:05", "--format", "combined", "access.log"}},
		{"help_simulate.txt", "", []string{"--help"}},
		{"simulate.json", "", []string{"--config", "tight.yaml", "--json", "access.log"}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			got := execute(t, test.stdin, append([]string{"simulate"}, test.args...)...)
			if got.code != exitGood || got.stderr != "" {
				t.Errorf("exit code %d, errors %q; want 0 and none", got.code, got.stderr)
			}
			testkit.Golden(t, *update, test.golden, got.stdout)
		})
	}
}

// TestSimulateLeavesNoPage checks that a replay that fails does not change an existing page.
func TestSimulateLeavesNoPage(t *testing.T) {
	simulated(t)
	page := testkit.TempFile(t, "old.html", "old")
	got := execute(t, "", "simulate", "--config", "tight.yaml", "--html", page, "no.log")
	if old, err := os.ReadFile(page); got.code != exitBad || err != nil || string(old) != "old" {
		t.Errorf("exit code %d, errors %q; the page has %q, %v", got.code, got.stderr, old, err)
	}
}

// TestSimulateMistakes checks that error messages say how to fix the mistake.
func TestSimulateMistakes(t *testing.T) {
	simulated(t)
	with := func(flags ...string) []string {
		return append([]string{"simulate", "--config", "tight.yaml", "access.log"}, flags...)
	}
	for _, test := range []struct {
		args []string
		code int
		want string // part of the last line
	}{
		{[]string{"simulate", "--config", "no.yaml", "access.log"}, exitBad, "no.yaml: no such file"},
		{with("--format", "json"), exitBad, "no line could be read; want another --format"},
		{with("--max-malformed", "5%"), exitMalformed, "1 of 7 lines could not be read, more than --max-malformed 5%; the report has examples; " +
			"want another --format, or --map to name the keys of JSON lines, or a higher --max-malformed"},
		{with("--map", "tiem=ts"), exitUsage, "--map: "},
		{with("--recommend", "0.999"), exitUsage, `"0.999" has no percent sign; want 99.9%`},
		{with("--recommend", "99%", "--burst", "2"), exitUsage, "--burst needs --window, such as"},
		{with("--recommend", "99%", "--window", "1m", "--burst", "0"), exitUsage,
			"--burst: [0]; want multiples from 1 to"},
		{with("--from", "yesterday"), exitUsage, `invalid time "yesterday"; want one such as 2026-03-02`},
		{with("--from", "2026-03-02", "--to", "2026-03-01"), exitUsage, "is not before --to"},
		{with("--html", "no/such/dir.html"), exitBad, "--html: open no/such/dir.html"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			got := execute(t, "", test.args...)
			lines := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n")
			if got.code != test.code || !strings.Contains(lines[len(lines)-1], test.want) {
				t.Errorf("exit code %d, errors:\n%s\nwant %d, %q", got.code, got.stderr, test.code, test.want)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(*testing.T) {
		p := &progress{out: &out, window: func() (int, int) { return 60, 24 }}
		p.show(accesslog.Stats{Lines: 10, Read: 1, Total: 4, Last: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC).UnixNano()})
		p.show(accesslog.Stats{Lines: 11, Read: 2, Total: 4}) // too soon to be drawn
		time.Sleep(redrawn)
		p.show(accesslog.Stats{Lines: 12, Read: 2})
		p.clear()
	})
	want := "\r██████░░░░░░░░░░░░░░░░░░  25%  10 lines, up to 2026-03-02 1" + clearLine + "\r12 lines" + clearLine + "\r" + clearLine
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	none := newProgress(&system{Stderr: &out})
	none.show(accesslog.Stats{Lines: 13})
	none.clear()
	if out.String() != want {
		t.Error("progress is shown without a terminal")
	}
}

// TestSimulateGenerate checks that simulate reads the logs that simulate-generate writes.
func TestSimulateGenerate(t *testing.T) {
	for _, flags := range [][]string{nil, {"--json"}} {
		log := execute(t, "", append([]string{"simulate-generate", "--lines", "500", "--span", "1h"}, flags...)...)
		got := execute(t, log.stdout, "simulate", "--config", example, "-")
		if !strings.Contains(got.stdout, "500 of 500 lines") || got.code != exitGood || log.code != exitGood {
			t.Errorf("%v: exit codes %d and %d, errors %q, output:\n%s", flags, log.code, got.code, got.stderr, got.stdout)
		}
	}
}

// TestSimulateUnreadable checks that the page, too, begins with a warning about unreadable lines,
// and that the report is printed even if there are too many of them.
func TestSimulateUnreadable(t *testing.T) {
	simulated(t)
	got := execute(t, "", "simulate", "--config", "tight.yaml", "--max-malformed", "0%", "--json", "--html", "page.html",
		"access.log")
	const want = "The log is partly unreadable: 1 of 7 lines (14.3%) could not be read"
	if got.code != exitMalformed || !strings.HasPrefix(got.stdout, "{\n  \"warning\": \""+want) ||
		!strings.Contains(testkit.ReadFile(t, "page.html"), `<p class="lead">`+want) {
		t.Errorf("got %+v", got)
	}
}
