package dashboard_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/stint-limiter/stint/dashboard"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/observe"
)

const (
	feedRows = "section.violations tbody tr"
	views    = "overview violations offenders bans subject limits shadow outbound audit"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Main(m)) }

// TestPage drives the page in a browser. Every page fails its test if the browser complains: of an
// error in the console, a request that failed, or something that the content security policy
// forbids.
func TestPage(t *testing.T) {
	browser := browsertest.Start(t)
	tests := []struct {
		name string
		test func(*testing.T, *fixture, *browsertest.Page)
	}{
		{"loads every view", testViews},
		{"charts move", testChartsMove},
		{"violations appear", testViolations},
		{"pause", testPause},
		{"filter", testFilter},
		{"hostile text is text", testHostile},
		{"token", testToken},
		{"token refused to be given", testNoToken},
		{"ban, reset and unban", testActs},
		{"nothing to change without tokens", testReadOnly},
		{"act where you look", testActWhereYouLook},
		{"violations by subject", testGroups},
		{"addresses typed by hand", testAddresses},
		{"limits of a subject in order", testOrder},
		{"alike violations are one", testAlike},
		{"alerts fire and clear", testAlerts},
		{"several processes", testProcesses},
		{"changes", testChanges},
		{"attack or mistake", testCause},
		{"attack", testAttack},
		{"store down", testStoreDown},
		{"connection lost", testLost},
		{"no gap", testNoGap},
		{"left for another page", testLeft},
		{"no state", testStateSilent},
		{"narrow", testNarrow},
		{"keyboard", testKeyboard},
		{"bounded", testBounded},
		{"background", testBackground},
		{"hidden", testHidden},
		{"hidden, and something goes wrong", testHiddenFailure},
		{"a stream ends", testStreamEnds},
		{"more tabs than connections", testTabs},
		{"a gap in the feed", testGap},
		{"themes", testThemes},
		{"one tier alone", testOneTier},
		{"rates", testRates},
		{"shadow", testShadow},
		{"focus is kept", testFocus},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // they wait more than they compute
			test.test(t, newFixture(t), browser.Page(t, 1280, 860))
		})
	}
}

// open loads a view, and waits until the page listens.
func open(t *testing.T, f *fixture, page *browsertest.Page, view string) {
	t.Helper()
	page.Open(f.URL + "/#/" + view)
	page.WaitText("#link", "Live")
}

func testViews(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "overview")
	for view := range strings.FieldsSeq(views) {
		page.Click("nav [data-view=" + view + "]")
		page.Wait("document.querySelector('#view section." + view + " h1')?.textContent.length > 3")
		if got := page.Text("nav [aria-current=page]"); !strings.EqualFold(got, view) {
			t.Errorf("at %s, the current view is called %q", view, got)
		}
		if view != "overview" && view != "limits" && page.Count("#view .empty") == 0 {
			t.Errorf("%s is empty, and does not say what to expect", view)
		}
	}
	page.Open(f.URL + "/#/constructor/%")
	page.Wait("document.querySelector('section.overview')")
}

func testChartsMove(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "overview")
	const drawn = `document.querySelector(".overview .main path.area.allowed")?.getAttribute("d") ?? ""`
	f.tick(observe.Tick{Point: observe.Point{
		At: time.Now().Unix() - 1, Counts: observe.Counts{Allowed: 100, Denied: 5}}})
	page.WaitText(".overview .main .legend", "100/s")
	f.tick(observe.Tick{Point: counted(400, 20)})
	page.WaitText(".overview .main .legend", "400/s")
	first := browsertest.Eval[string](page, drawn)
	point := counted(900, 90)
	point.At = time.Now().Unix() + 1
	f.tick(observe.Tick{Point: point})
	page.WaitText(".overview .main .legend", "900/s")
	if browsertest.Eval[string](page, drawn) == first {
		t.Error("a tick does not change the chart")
	}
	page.WaitText(".summary", "denied")
}

func testViolations(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "violations")
	page.Wait("!document.querySelector('section.violations .empty').hidden")
	f.tick(observe.Tick{Point: counted(10, 1),
		Violations: []observe.Violation{denial("user:eve", "free", "login")}, Unshown: 41})
	page.WaitText(feedRows, "user:eve")
	for _, want := range []string{"free / login", "10/1m", "limit", "12.5 s"} {
		if got := page.Text(feedRows); !strings.Contains(got, want) {
			t.Errorf("the row says %q, and not %q", got, want)
		}
	}
	if got, want := page.Text(".counts"), "41 more were counted"; !strings.Contains(got, want) {
		t.Errorf("the counts say %q, want %q", got, want)
	}
}

func testPause(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "violations")
	page.Click("#pause")
	f.tick(observe.Tick{Violations: []observe.Violation{denial("user:eve", "free", "")}})
	page.WaitText("#pause", "1 new")
	if got := page.Count(feedRows); got != 0 {
		t.Errorf("%d rows while paused, want 0", got)
	}
	page.Press("p")
	page.WaitText(feedRows, "user:eve")
}

func testFilter(t *testing.T, f *fixture, page *browsertest.Page) {
	banned := denial("ip:203.0.113.7", "anonymous", "login")
	banned.Reason = "ban"
	f.change(func() {
		f.state.Series = []observe.Series{{Tier: "free", Policy: "search"}, {Tier: "anonymous", Policy: "login"}}
		f.state.Violations = []observe.Violation{denial("user:eve", "free", "search"), banned,
			denial("user:bob", "free", "search")}
	})
	open(t, f, page, "violations")
	page.Wait("document.querySelectorAll('" + feedRows + "').length === 3")
	if got := page.Text(feedRows); !strings.Contains(got, "user:bob") {
		t.Errorf("the first row is %q, want the newest", got)
	}
	page.Press("/")
	page.Press("EVE search")
	page.Wait("document.querySelectorAll('" + feedRows + "').length === 1")
	f.tick(observe.Tick{Violations: []observe.Violation{denial("user:dan", "free", "search"),
		denial("user:eve2", "free", "search")}})
	page.Wait("document.querySelectorAll('" + feedRows + "').length === 2")
	page.Click("section.violations .filters button")
	page.Wait("document.querySelectorAll('" + feedRows + "').length === 5")
	for _, choice := range []struct {
		label, value string
		want         int
	}{{"Tier", "anonymous", 1}, {"Tier", "", 5}, {"Reason", "ban", 1}, {"Reason", "", 5}, {"Policy", "search", 4}} {
		browsertest.Eval[bool](page, fmt.Sprintf(`(() => {
			const label = [...document.querySelectorAll(".filters label")].find((l) => l.textContent.startsWith(%q));
			const select = label.querySelector("select");
			select.value = %q;
			return select.dispatchEvent(new Event("change"));
		})()`, choice.label, choice.value))
		if got := page.Count(feedRows); got != choice.want {
			t.Errorf("%s %q: %d rows, want %d", choice.label, choice.value, got, choice.want)
		}
	}
}

func testHostile(t *testing.T, f *fixture, page *browsertest.Page) {
	const name = `user:<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
	v := denial(name, "<b>tier</b>", "<i>policy</i>")
	v.Ref, v.Limit = "hostile", "<u>1/1m</u>"
	f.change(func() {
		f.state.Violations = []observe.Violation{v}
		f.state.Series = []observe.Series{{Tier: v.Tier, Policy: v.Policy, Total: observe.Counts{Denied: 9}}}
		f.state.Top["user"] = []observe.Offender{
			{Kind: "user", Subject: name, Ref: "hostile", Denied: 9, AtLeast: 9, Policy: v.Policy}}
		f.state.Top["policy"] = []observe.Offender{{Kind: "policy", Subject: v.Policy, Denied: 9, AtLeast: 9}}
		f.state.Alerts = []observe.Alert{
			{Name: "<b>A</b>", State: "firing", Severity: "page", Summary: name, Unit: "<b>"}}
		f.state.Store.Name, f.state.Store.Warnings = name, []string{name}
		f.state.Config = dashboard.ConfigState{
			Phase: name, Sources: []dashboard.Source{{Name: name, Path: name, Error: name}},
			Tiers: []dashboard.RuleList{{Name: name, Limits: []string{name}}},
		}
		f.state.Audit = []dashboard.Action{{At: time.Now(), Who: name, What: name, Subject: name, Result: name}}
		f.state.Outbound = []*dashboard.OutboundState{
			{Name: name, Limits: []string{name}, Used: 1, Capacity: 1, Calls: 1}}
		f.reports = []observe.ShadowReport{
			{Tier: name, Policy: name, Limits: []string{name},
				Minutes: []observe.ShadowCounts{{Requests: 1}, {Requests: 1}},
				Top:     []observe.Offender{{Subject: name, Ref: "hostile", Denied: 1}}}}
		f.bans = []control.Ban{{Banned: driver.Banned{
			Subject: name, BanState: driver.BanState{Until: time.Now().Add(time.Hour)}}, Ref: "hostile"}}
		f.subjects["hostile"] = control.Subject{Named: control.Named{Subject: name}, Now: time.Now(),
			Limits: []control.Limit{{Tier: name, Policy: name, Scope: name, Limit: name, Algorithm: name,
				Capacity: 1, Window: 60}}}
	})
	for view := range strings.FieldsSeq(strings.Replace(views, "subject", "subject/ref/hostile", 1)) {
		open(t, f, page, view)
		page.Wait("document.querySelector('#view').textContent.includes(" + browsertest.Quote(name) + ")")
		if got := page.Count("main img, main script, main b:not(.use b, .legend b), main i:not(.swatch), main u"); got != 0 {
			t.Errorf("%s: %d elements came out of names", view, got)
		}
	}
	if got := browsertest.Eval[string](page, "document.title"); strings.Contains(got, "owned") {
		t.Errorf("the title is %q", got)
	}
	open(t, f, page, "subject/ref/hostile")
	page.Click("[data-act=reset]")
	page.WaitText("#confirm-title", name)
}

func testToken(t *testing.T, f *fixture, page *browsertest.Page) {
	page.Expect("401")
	f.change(func() { f.token = "secret" })
	page.Open(f.URL)
	page.Wait("document.querySelector('#token').open")
	page.Press("wrong" + kb.Enter)
	page.WaitText("#token-why", "Invalid token")
	page.Press("secret" + kb.Enter)
	page.WaitText("#link", "Live")
	open(t, f, page, "subject")
	if got := browsertest.Eval[string](page, "JSON.stringify({...localStorage}) + document.cookie"); strings.Contains(got, "secret") {
		t.Errorf("the token is kept beyond the tab: %s", got)
	}
	page.Open(f.URL + "/?again")
	page.WaitText("#link", "Live")
	if browsertest.Eval[bool](page, "document.querySelector('#token').open") {
		t.Error("the token is asked for again in the same tab")
	}
}

func testNoToken(t *testing.T, f *fixture, page *browsertest.Page) {
	page.Expect("401")
	f.change(func() { f.token = "secret" })
	page.Open(f.URL)
	page.Wait("document.querySelector('#token').open")
	page.Press(kb.Escape)
	page.WaitText("#banner", "token is required")
	page.Click("#banner button")
	page.Wait("document.querySelector('#token').open")
	page.Press("secret" + kb.Enter)
	page.WaitText("#link", "Live")
	page.Wait("document.querySelector('#banner').hidden")
}

func testActs(t *testing.T, f *fixture, page *browsertest.Page) {
	now := time.Now()
	f.change(func() {
		f.subjects["user:42"] = control.Subject{
			Named: control.Named{Subject: "user:42"}, Now: now,
			Ban: driver.BanState{Until: now.Add(time.Hour), Level: 1, Strikes: 3},
			Limits: []control.Limit{{Tier: "free", Limit: "10/1m", Algorithm: "sliding", Max: 10, Capacity: 10,
				Window: 60, Used: 10, ResetAfter: 50, RetryAfter: 20,
				Entries: []driver.Entry{{At: now.Add(-40 * time.Second), Until: now.Add(20 * time.Second), Units: 4},
					{At: now.Add(-10 * time.Second), Until: now.Add(50 * time.Second), Units: 6}}}}}
		f.bans = []control.Ban{{Banned: driver.Banned{
			Subject: "ip:203.0.113.x", BanState: driver.BanState{Until: now.Add(time.Hour), Level: 2}}, Ref: "abc"}}
	})
	open(t, f, page, "subject")
	page.Type("section.subject input", "user:42"+kb.Enter)
	page.WaitText(".who", "user:42")
	page.WaitText(".banned", "Banned until")
	page.WaitText(".card", "10 of 10 used")
	if got := page.Count(".card svg.window .mark"); got != 2 {
		t.Errorf("%d marks on the time line, want one for each of 2 charges", got)
	}
	page.WaitText("svg.window", "room again in 20 s")

	page.Click("[data-act=reset]")
	page.WaitText("#confirm-title", "Reset user:42?")
	page.Press(kb.Escape)
	page.Wait("!document.querySelector('#confirm').open")
	if got := f.written(); len(got) != 0 {
		t.Fatalf("written without a yes: %v", got)
	}
	confirm := func(button, notice string) {
		t.Helper()
		page.Click(button)
		page.Wait("document.querySelector('#confirm').open")
		page.Click("#confirm [value=ok]")
		page.WaitText("#notice", notice+": done.")
	}
	confirm("[data-act=reset]", "Reset user:42")
	browsertest.Eval[bool](page, `document.querySelector("#confirm select").addEventListener("focus", (e) => (e.target.value = "24h")) ?? true`)
	confirm("[data-act=ban]", "Ban user:42")
	confirm("[data-act=unban]", "Unban user:42")
	page.Click("nav [data-view=bans]")
	page.WaitText("section.bans td", "ip:203.0.113.x")
	confirm("section.bans td button", "Unban ip:203.0.113.x")
	want := []write{
		{path: "/api/reset", body: `{"subject":"user:42"}`},
		{path: "/api/ban", body: `{"subject":"user:42","for":"24h"}`},
		{path: "/api/unban", body: `{"subject":"user:42"}`},
		{path: "/api/unban", body: `{"ref":"abc"}`},
	}
	if got := f.written(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("written:\n%v\nwant\n%v", got, want)
	}
}

func testReadOnly(t *testing.T, f *fixture, page *browsertest.Page) {
	f.change(func() {
		f.state.Writable, f.state.Who = false, ""
		f.subjects["user:42"] = control.Subject{Named: control.Named{Subject: "user:42"}, Now: time.Now()}
		f.bans = []control.Ban{{Banned: driver.Banned{
			Subject: "user:42", BanState: driver.BanState{Until: time.Now().Add(time.Hour)}}}}
	})
	open(t, f, page, "subject/name/user%3A42")
	page.WaitText(".who", "the server has no tokens")
	if got := page.Count(".who button:not(:disabled)"); got != 0 {
		t.Errorf("%d buttons can be pressed, want 0", got)
	}
	open(t, f, page, "bans")
	page.WaitText("section.bans td button:disabled", "Unban")
	f.change(func() { f.state.Who = "prometheus" })
	open(t, f, page, "subject/name/user%3A42")
	page.WaitText(".who", "The token of prometheus has the role read.")
}
