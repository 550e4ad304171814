package report_test

import (
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/internal/simulate/report"
	"github.com/stint-limiter/stint/internal/testkit"
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
			testkit.Golden(t, *update, test.golden, strings.ReplaceAll(got, "\x1b", "ESC"))
		})
	}
}

// TestOthers: the first sentence counts the denials of subjects that are not counted separately
// apart.
func TestOthers(t *testing.T) {
	r := &simulate.Result{Outcome: simulate.Outcome{
		Total:    simulate.Count{Requests: 1200, Allowed: 100, Denied: 1100},
		Subjects: simulate.Subjects{Seen: 5, Hit: 4, Cap: 5, Others: simulate.Count{Requests: 1050, Denied: 1050}},
	}}
	const want = "1,100 of 1,200 requests (91.7%), from 4 of the first 5 subjects, and\n1,050 from others.\n"
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

// TestExamples: what is printed of a line that could not be read is part of it, at any width, on
// the page and in JSON.
func TestExamples(t *testing.T) {
	lines := []string{
		"\x1b[31mred\x1b[0m and then a longer text,  with  two  spaces",
		strings.Repeat(`C:\Users\Ann "quoted" <b>café</b> `, 12),
		"{\"ts\": 1, \"msg\": \"half of a line",
		"192.0.2.1 - - [today] \"GET / HTTP/1.1\" 200\t1",
		"\xff\xfe\xfd",
	}
	log := filepath.Join(t.TempDir(), "access.log")
	good := `192.0.2.1 - - [02/Mar/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 10` + "\n"
	if err := os.WriteFile(log, []byte(good+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := accesslog.Open([]string{log}, accesslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	conf, err := config.Parse("test.yaml", []byte("tiers: [{name: anyone, identity: ip, limits: 5/1m}]"))
	if err != nil {
		t.Fatal(err)
	}
	found, err := simulate.Run(t.Context(), source, simulate.Options{Set: conf.Set})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, number int64, text string) {
		t.Helper()
		if !strings.Contains(lines[number-2], text) || text == "" {
			t.Errorf("%s: %q is not in line %d: %q", what, text, number, lines[number-2])
		}
	}
	if len(found.Log.Examples) != 3 { // at most two of a kind
		t.Errorf("got %+v", found.Log.Examples)
	}
	for _, e := range found.Log.Examples {
		check("JSON", e.Line, e.Text)
	}
	r := report.New(found, report.Names{})
	for _, width := range []int{0, 60, 80, 120} {
		n, column := 0, -1
		for line := range strings.Lines(string(r.Text(report.Terminal{Width: width}))) {
			if strings.Contains(line, "WHERE") {
				column = strings.Index(line, "LINE")
				continue
			}
			if where := regexp.MustCompile(`access\.log:(\d) `).FindStringSubmatch(line); where != nil {
				number, _ := strconv.ParseInt(where[1], 10, 64)
				check(fmt.Sprint("width ", width), number, strings.TrimSuffix(string([]rune(line)[column:]), "\n"))
				n++
			}
		}
		if n != 3 {
			t.Errorf("width %d: %d examples, want 3", width, n)
		}
	}
	page, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`access\.log:(\d)</td>.*?verbatim ">(.*?)</td>`).FindAllStringSubmatch(string(page), -1)
	for _, m := range shown {
		number, _ := strconv.ParseInt(m[1], 10, 64)
		check("page", number, html.UnescapeString(m[2]))
	}
	if len(shown) != 3 {
		t.Errorf("page: %d examples, want 3", len(shown))
	}
}

// TestHitBy: the table names a ban, first if it denied more than any limit.
func TestHitBy(t *testing.T) {
	minute := simulate.HitBy{Tier: "free", Limit: stint.PerMinute(30), Denied: 10}
	hour := simulate.HitBy{Tier: "free", Limit: stint.PerHour(300), Denied: 5}
	for _, test := range []struct {
		hit  simulate.Hit
		want string
	}{
		{simulate.Hit{By: []simulate.HitBy{minute}}, "free: 30/1m"},
		{simulate.Hit{By: []simulate.HitBy{minute, hour}}, "free: 30/1m and 1 more"},
		{simulate.Hit{By: []simulate.HitBy{minute, hour}, Banned: 11}, "a ban, free: 30/1m and 1 more"},
		{simulate.Hit{By: []simulate.HitBy{minute}, Banned: 10}, "free: 30/1m, a ban"},
		{simulate.Hit{Banned: 10}, "a ban"},
	} {
		r := &simulate.Result{Outcome: simulate.Outcome{Total: counts(100, 50, 0, 0), Hit: []simulate.Hit{test.hit}}}
		if got := string(report.New(r, names).Text(report.Terminal{})); !strings.Contains(got, "  "+test.want+"\n") {
			t.Errorf("no %q in\n%s", test.want, got)
		}
	}
}
