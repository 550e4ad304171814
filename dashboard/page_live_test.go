package dashboard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/observe"
)

// testAlerts: alerts fire and clear, in this process and in others.
func testAlerts(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "violations")
	alert := observe.Alert{Name: "StoreDown", Severity: "page", State: "firing", Summary: "The store is down.",
		Value: 75, Threshold: 60, Unit: "s", Since: time.Now()}
	f.tick(observe.Tick{Alerts: []observe.Alert{alert}})
	page.WaitText("#alerts [data-alert=StoreDown]", "firing")
	page.WaitText("#alerts", "1 m 15 s, threshold 1 m")
	page.Wait(`document.title === "(1) stint"`)
	page.Click("nav [data-view=overview]")
	page.WaitText(".verdict .health", "Limiter unhealthy.")
	page.WaitText(".strip", "1 firing")
	f.tick(observe.Tick{}) // no alerts: as they were
	alert.State = "ok"
	page.Wait("document.querySelector('#alerts [data-alert=StoreDown]')")
	f.tick(observe.Tick{Alerts: []observe.Alert{alert}})
	page.Wait("document.querySelector('#alerts').children.length === 0")
	page.WaitText(".verdict .health", "Limiter healthy.")
	page.Wait(`document.title === "stint"`)

	// The page shows each of several processes, and which one is silent.
	page.Wait("document.querySelector('.processes').hidden")
	now := time.Now()
	both := []observe.Process{
		{Name: "web-1/7", Self: true, Heard: now, Decisions: 12, StoreUp: true,
			Total: observe.Counts{Allowed: 100, Denied: 11}},
		{Name: "web-2/7", Heard: now, Decisions: 30, StoreUp: true,
			Total: observe.Counts{Allowed: 200}, Alerts: []string{"LimiterSlow"}},
	}
	f.tick(observe.Tick{Processes: both})
	page.WaitText(".strip", "2 report")
	page.WaitText(".processes tbody", "web-2/7")
	page.WaitText(".processes tbody", "111, 11 denied")
	page.WaitText(".verdict", "In the process web-2/7, an alert is firing: LimiterSlow.")
	silent := []observe.Process{both[0], both[1]}
	silent[1].Silent, silent[1].Heard, silent[1].Alerts = true, now.Add(-8*time.Second), nil
	f.tick(observe.Tick{Processes: silent, Alerts: []observe.Alert{{Name: "ProcessSilent", Severity: "page",
		State: "firing", Summary: "Processes have stopped reporting.", Value: 1, Unit: "count", Since: now}}})
	page.WaitText(".verdict .health", "Limiter unhealthy.")
	page.WaitText(".verdict", "The process web-2/7 has not reported for")
	page.WaitText(".strip", "1 of 2 silent")
	page.Click("nav [data-view=violations]")
	page.WaitText(".violations .counts", "only from web-1/7: the other process lists its own")
}

// testChanges: denials that began with a change of the configuration are connected to it, and not
// called an attack. Processes with another configuration are named.
func testChanges(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "overview")
	now := time.Now()
	change := observe.Change{At: now.Add(-time.Minute), Source: "policies", Files: []string{"stint.yaml"},
		What: []string{"api for enterprise from 500/1m to 50/1m"}}
	f.tick(observe.Tick{Changes: []observe.Change{change}})
	page.WaitText(".verdict .why", "api for enterprise from 500/1m to 50/1m (stint.yaml).")
	change.Subjects, change.Share, change.Explains = 8, 1, true
	flood := observe.Offender{Kind: "user", Subject: "user:7", Rate: 60, Share: 1, First: now.Add(-50 * time.Second)}
	f.tick(observe.Tick{Point: observe.Point{At: now.Unix(), Counts: observe.Counts{Denied: 600}},
		Offenders: []observe.Offender{flood}, Changes: []observe.Change{change}})
	page.WaitText(".verdict .sees", "A configuration change causes denials.")
	page.WaitText(".verdict .cause", "api for enterprise from 500/1m to 50/1m; 8 subjects newly denied (stint.yaml).")
	f.tick(observe.Tick{Processes: []observe.Process{{Name: "web-1/7", Self: true, Config: "policies 1a"},
		{Name: "web-2/7", Config: "policies 2b"}}})
	page.WaitText(".verdict", "The process web-2/7 (policies 2b) has a different configuration in force than web-1/7 (policies 1a).")
}

// testAttack: within a tick of a flood the page says who is attacking, and that the limiter is
// healthy all the same. Alerts about requests are not about its health.
func testAttack(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "overview")
	page.WaitText(".verdict h1", "Limiter healthy. No subject is limited.")
	flood := func(rate, share float64, others int64) {
		now := time.Now()
		f.tick(observe.Tick{
			Point: counted(100, int64(rate*share)+others),
			Offenders: []observe.Offender{{Kind: "ip", Subject: "ip:203.0.113.9", Ref: "r", Rate: rate, Share: share,
				First: now.Add(-time.Second), Last: now}},
			Alerts: []observe.Alert{{Name: "BlockedShare", Severity: "ticket", State: "firing", Unit: "share"}},
		})
	}
	flood(60, 1, 10)
	page.WaitText(".verdict h1", "Limiter healthy. Under attack: ip:203.0.113.9 60 requests/s, 100% denied.")
	if got := page.Count(".verdict h1 a[href='#/subject/ref/r']"); got != 1 {
		t.Errorf("%d links to the attacker, want 1", got)
	}
	flood(6, 0.5, 10) // too few
	page.Wait("!document.querySelector('.verdict h1').textContent.includes('attack')")
	flood(60, 1, 400) // others are denied much more
	page.Wait("!document.querySelector('.verdict h1').textContent.includes('attack')")
	flood(6000, 0.9, 0)
	page.WaitText(".verdict h1", "Under attack: ip:203.0.113.9 6000 requests/s, 90% denied.")
	f.tick(observe.Tick{Point: counted(100, 0)})
	page.Wait("!document.querySelector('.verdict h1').textContent.includes('attack')")
}

func testLost(t *testing.T, f *fixture, page *browsertest.Page) {
	page.Expect("503")
	open(t, f, page, "violations")
	f.tick(observe.Tick{Point: counted(1, 1), Violations: []observe.Violation{denial("user:eve", "", "")}})
	page.WaitText(feedRows, "user:eve")
	f.change(func() { f.broken = true })
	f.cut()
	page.WaitText("#banner", "Retrying in")
	page.WaitText("#banner", "Showing data from")
	page.WaitText("#link", "Not connected")
	page.WaitText("#banner", "The fixture is broken.")
	f.change(func() {
		f.broken = false
		f.state.Violations = []observe.Violation{denial("user:eve", "", ""), denial("user:bob", "", "")}
	})
	page.Click("#banner button")
	page.WaitText("#link", "Live")
	page.Wait("document.querySelector('#banner').hidden")
	page.Wait("document.querySelectorAll('" + feedRows + "').length === 2") // and not one of them twice
}

func testKeyboard(t *testing.T, f *fixture, page *browsertest.Page) {
	f.busy()
	f.change(func() { f.subjects["user:42"] = subject("user:42") })
	open(t, f, page, "overview")
	const focused = `(document.activeElement.textContent || document.activeElement.getAttribute("aria-label") || document.activeElement.id).trim()`

	// The first is the skip link, and every control of the view comes in turn, with the focus to be
	// seen.
	page.Press(kb.Tab)
	if got := browsertest.Eval[string](page, focused); got != "Skip to content" {
		t.Errorf("the first stop is %q", got)
	}
	want := page.Count(":is(a[href], button:not(:disabled, [hidden]), .stage):not(dialog *)")
	stops := map[string]bool{}
	for range want + 5 {
		page.Press(kb.Tab)
		if browsertest.Eval[bool](page, `getComputedStyle(document.activeElement).outlineStyle === "none" && document.activeElement !== document.body`) {
			t.Errorf("the focus on %q cannot be seen", browsertest.Eval[string](page, focused))
		}
		stops[browsertest.Eval[string](page, `document.activeElement === document.body ? "" : [...document.querySelectorAll("*")].indexOf(document.activeElement).toString()`)] = true
	}
	if len(stops) < want {
		t.Errorf("%d stops of the Tab key, want %d", len(stops), want)
	}

	// A chart is read out by arrow keys.
	browsertest.Eval[bool](page, `document.querySelector(".overview .stage").focus() ?? true`)
	before := browsertest.Eval[string](page, `document.activeElement.getAttribute("aria-valuetext")`)
	page.Press(kb.ArrowLeft + kb.ArrowLeft)
	page.Wait(`document.activeElement.getAttribute("aria-valuetext") !== ` + browsertest.Quote(before))
	page.Wait(`document.querySelector(".overview .stage .cursor")`)

	for key, view := range map[string]string{"o": "overview", "v": "violations", "f": "offenders", "b": "bans",
		"s": "subject", "l": "limits", "u": "outbound", "a": "audit"} {
		page.Press("g" + key)
		page.Wait("document.querySelector('section." + view + "')")
	}
	page.Press("gf")
	page.Wait(`document.querySelector("[role=tab][aria-selected=true]")`)
	browsertest.Eval[bool](page, `document.querySelector("[role=tab][aria-selected=true]").focus() ?? true`)
	page.Press(kb.ArrowRight)
	page.Wait(`document.activeElement.id === "tab-user" && document.querySelector("#offenders").textContent.includes("user:mallo")`)
	page.Press("/")
	page.Wait(`document.activeElement.matches("section.violations input")`)
	browsertest.Eval[bool](page, `document.activeElement.blur() ?? true`)
	page.Press("gs")
	page.Wait(`document.querySelector("section.subject")`)
	page.Press("/")
	page.Wait(`document.activeElement.matches("section.subject input")`)
	page.Press("user:42" + kb.Enter)
	page.WaitText(".who", "user:42")

	// Escape closes the help, where single keys can be switched off.
	browsertest.Eval[bool](page, `document.activeElement.blur() ?? true`)
	page.Press("?")
	page.Wait(`document.querySelector("#helping").open`)
	page.Click("#shortcuts")
	page.Press(kb.Escape)
	page.Wait(`!document.querySelector("#helping").open`)
	page.Press("p")
	if got := browsertest.Eval[string](page, `document.querySelector("#pause").getAttribute("aria-pressed")`); got != "false" {
		t.Error("a single key does something though they are off")
	}
}

func testBounded(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "violations")
	for range 30 {
		tick := observe.Tick{Point: counted(20_000, 4000), Unshown: 3800}
		for i := range 200 {
			tick.Violations = append(tick.Violations, denial(fmt.Sprint("user:", i), "free", "search"))
		}
		f.tick(tick)
	}
	page.WaitText(".counts", "114,000 more were counted")
	page.WaitText(".counts", "1,000 violations of 200 subjects shown")
	page.Click("section.violations .check input")
	page.WaitText(".counts", "800 older ones not shown")
	if got := page.Count(feedRows); got != 200 {
		t.Errorf("%d rows, want 200", got)
	}
}
