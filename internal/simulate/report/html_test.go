package report_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/internal/simulate/loggen"
	"github.com/stint-limiter/stint/internal/simulate/report"
	"github.com/stint-limiter/stint/internal/testkit"
)

// ScreenshotsEnv names a directory for the screenshots of docs/simulate.md, which are taken if it is set.
const ScreenshotsEnv = "STINT_SCREENSHOTS"

// file writes a page to a file and returns its URL.
func file(t *testing.T, r *simulate.Result, names report.Names) string {
	t.Helper()
	html := testkit.Must(report.New(r, names).HTML())(t)
	name := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(name, html, 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + name
}

// TestPage opens pages from disk in a browser.
func TestPage(t *testing.T) {
	browser := browsertest.Start(t)
	t.Run("charts", func(t *testing.T) { testCharts(t, browser.Page(t, 1200, 900)) })
	t.Run("hostile", func(t *testing.T) { testHostile(t, browser.Page(t, 1200, 900)) })
	t.Run("narrow", func(t *testing.T) { testNarrow(t, browser.Page(t, 360, 740)) })
	t.Run("pictures", func(t *testing.T) { testPictures(t, browser) })
}

// testCharts: all charts are drawn, and the time at the cursor is in UTC.
func testCharts(t *testing.T, page *browsertest.Page) {
	page.Open(file(t, full(), report.Names{Config: "new.yaml", Against: "old.yaml"}))
	page.Wait(`document.querySelectorAll(".timeline svg").length === 2`)
	if got := browsertest.Eval[int](page, `[...document.querySelectorAll(".share, .heights")].filter((node) => !node.querySelector("svg")).length`); got != 0 {
		t.Errorf("%d drawings are missing in tables", got)
	}
	if got, want := browsertest.Eval[int](page, `JSON.parse(document.querySelector("#result").textContent).outcome.total.denied`), 14_328; got != want {
		t.Errorf("the page says %d in JSON, want %d", got, want)
	}
	if got := browsertest.Eval[[]string](page, `[...document.querySelectorAll(".timeline .axes text")].map((node) => node.textContent)`); !strings.Contains(strings.Join(got, " "), "3 Mar") {
		t.Errorf("no day is named on the axis: %q", got)
	}
	browsertest.Eval[bool](page, `document.querySelector(".stage").focus() ?? true`)
	page.Press(kb.Home)
	page.WaitText(".stage .cursor-time", "2 Mar 00:00 UTC")
}

// testHostile: text of a log is never markup, in the page and in its JSON.
func testHostile(t *testing.T, page *browsertest.Page) {
	r := full()
	const evil = `</script><script>document.title = "owned"</script><img src=x onerror="document.title='owned'">`
	r.Outcome.Hit[0].Subject, r.Log.Examples[0].Text, r.Notes[0] = evil, evil, evil
	page.Open(file(t, r, report.Names{Config: evil, Against: evil, Logs: []string{evil}}))
	page.Wait(`document.querySelectorAll(".timeline svg").length === 2`)
	if got := browsertest.Eval[string](page, "document.title"); got == "owned" || page.Count("img") != 0 ||
		page.Count("script") != 2 {
		t.Errorf("the title is %q, and there are %d images and %d scripts; want none and 2", got, page.Count("img"),
			page.Count("script"))
	}
	if !strings.Contains(page.Text("#notes"), evil) {
		t.Errorf("not the text of the note: %q", page.Text("#notes"))
	}
	if got := browsertest.Eval[string](page, `JSON.parse(document.querySelector("#result").textContent).outcome.hit[0].subject`); got != evil {
		t.Errorf("the JSON has %q, want %q", got, evil)
	}
}

// testNarrow: on a phone, tables scroll, and the page does not.
func testNarrow(t *testing.T, page *browsertest.Page) {
	page.Open(file(t, full(), report.Names{Config: "conf/stint.yaml", Logs: []string{"/var/log/access.log"}}))
	page.Wait(`document.querySelectorAll(".timeline svg").length === 2`)
	if got := browsertest.Eval[int](page, "document.documentElement.scrollWidth"); got > 360 {
		t.Errorf("the page is %d wide on a screen of 360", got)
	}
}

// testPictures takes the screenshots of docs/simulate.md.
func testPictures(t *testing.T, browser *browsertest.Browser) {
	dir := os.Getenv(ScreenshotsEnv)
	if dir == "" {
		t.Skip("make screenshots sets " + ScreenshotsEnv)
	}
	url := file(t, replayed(t, 100_000, 0.99, 0.999, 1), report.Names{Config: "stint.yaml", Logs: []string{"access.log"}})
	for _, scheme := range []string{"light", "dark"} {
		page := browser.Page(t, 1200, 1000)
		page.Prefer("prefers-color-scheme", scheme)
		for _, section := range []string{"", "recommended"} {
			name := "simulate"
			if section != "" {
				name += "-" + section
			}
			page.Open(url + "#" + section)
			page.Wait(`document.querySelector(".timeline svg")`)
			page.Screenshot(filepath.Join(dir, name+"-"+scheme+".png"), false)
		}
	}
}

// replayed is the result of the example configuration on a generated log, with limits recommended
// for shares of subjects.
func replayed(t *testing.T, lines int, recommend ...float64) *simulate.Result {
	t.Helper()
	var log bytes.Buffer
	if err := loggen.Generate(&log, loggen.Options{Seed: 1, Lines: lines}); err != nil {
		t.Fatal(err)
	}
	source := testkit.Must(accesslog.Open([]string{"-"}, accesslog.Options{Stdin: &log}))(t)
	defer source.Close()
	conf := testkit.Must(config.Load("../../../examples/tiers/stint.yaml"))(t)
	found, err := simulate.Run(t.Context(), source,
		simulate.Options{Set: conf.Set, Recommend: recommend})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
