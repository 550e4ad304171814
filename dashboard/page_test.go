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
		{"overview", testOverview},
		{"violations", testViolations},
		{"bounded", testBounded},
		{"hostile text is text", testHostile},
		{"token", testToken},
		{"acts", testActs},
		{"offenders", testOffenders},
		{"read only", testReadOnly},
		{"subject", testSubject},
		{"alerts and processes", testAlerts},
		{"changes", testChanges},
		{"attack", testAttack},
		{"connection lost", testLost},
		{"hidden", testHidden},
		{"left for another page", testLeft},
		{"model", testModel},
		{"keyboard", testKeyboard},
		{"focus", testFocus},
		{"shadow", testShadow},
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

// testOverview: charts move with ticks, rates are of the seconds that are known, and a tier can be
// chosen.
func testOverview(t *testing.T, f *fixture, page *browsertest.Page) {
	now := time.Now().Unix()
	f.change(func() {
		for i := range int64(25) {
			point := counted(10, 0)
			point.At = now - 24 + i
			f.state.Points = append(f.state.Points, point)
		}
		ten := observe.Counts{Allowed: 75, Denied: 25}
		hundred := observe.Counts{Allowed: 100}
		f.state.Long = []observe.Point{{At: now - 15, Counts: hundred}, {At: now - 5, Counts: hundred}}
		f.state.Series = []observe.Series{{Tier: "pro", Policy: "search",
			Total: observe.Counts{Allowed: 150, Denied: 50}, Recent: []observe.Counts{ten, ten}}}
		f.state.Violations = []observe.Violation{denial("user:bob", "free", "")}
		for range 50 {
			f.state.Violations = append(f.state.Violations, denial("user:eve", "free", ""))
		}
	})
	open(t, f, page, "overview")
	page.WaitText(".brief li", "user:eve ×50")
	const drawn = `document.querySelector(".overview .main path.area.allowed")?.getAttribute("d") ?? ""`
	first := browsertest.Eval[string](page, drawn)
	for i := range int64(4) {
		point := counted(10, 0)
		point.At = now + 1 + i
		f.tick(observe.Tick{Point: point, Series: []observe.Series{
			{Tier: "pro", Policy: "search", Total: observe.Counts{Allowed: 160, Denied: 50},
				Recent: []observe.Counts{{Allowed: 8, Denied: 2}}},
			{Tier: "new", Total: observe.Counts{Allowed: 48}, Recent: []observe.Counts{{Allowed: 12}}},
		}})
	}
	page.WaitText(".multiple[data-name=pro]", "10/s") // 200 of two steps and 40 of four seconds
	page.WaitText(".multiple[data-name=pro]", "24.2% denied")
	page.WaitText(".multiple[data-name=new]", "2/s") // 48 of those 24 seconds
	page.WaitText(".summary", "10 decisions/s in the last minute")
	if browsertest.Eval[string](page, drawn) == first {
		t.Error("a tick does not change the chart")
	}
	page.Click(".multiple[data-name=pro]")
	page.WaitText(".overview .main .legend", "allowed8/s")
	page.WaitText(".chip", "tier pro")
	if !browsertest.Eval[bool](page, `[...document.querySelectorAll(".ranges button")].at(-1).disabled`) {
		t.Error("two hours of one tier can be chosen, and are not kept")
	}
	page.Click("nav [data-view=violations]")
	page.Wait(`document.querySelector("section.violations select")?.value === "pro"`)
	page.Click("nav [data-view=overview]")
	page.Click(".chip")
	page.Click(".ranges button:last-child")
	page.Wait(`document.querySelector(".ranges button:last-child").getAttribute("aria-pressed") === "true"`)
}

// testViolations: the feed shows each violation once, by subject or not, pauses and filters.
func testViolations(t *testing.T, f *fixture, page *browsertest.Page) {
	bob := denial("user:bob", "free", "search")
	now := time.Now().Unix()
	f.change(func() {
		f.state.Series = []observe.Series{{Tier: "free", Policy: "search"}, {Tier: "anonymous", Policy: "login"}}
		f.state.Points, f.state.Violations = []observe.Point{{At: now}}, []observe.Violation{bob}
		f.loading = func() { // what happens while the page loads
			f.tick(observe.Tick{Point: observe.Point{At: now}, Violations: []observe.Violation{bob}})
			f.tick(observe.Tick{Point: observe.Point{At: now + 1}, Unshown: 41,
				Violations: []observe.Violation{denial("user:eve", "free", "login")}})
		}
	})
	const shown = "section.violations table:not([hidden]) tbody tr" // by subject or not
	rows := func(n int) {
		t.Helper()
		page.Wait(fmt.Sprintf("document.querySelectorAll('%s').length === %d", shown, n))
	}
	open(t, f, page, "violations")
	rows(2)
	f.change(func() { f.loading = nil })
	for _, want := range []string{"user:eve", "free / login", "10/1m", "limit", "12.5 s"} {
		if got := page.Text(feedRows); !strings.Contains(got, want) {
			t.Errorf("the newest row is %q, want %q in it", got, want)
		}
	}
	page.WaitText(".counts", "41 more were counted")
	page.WaitText(".counts", "2 violations of 2 subjects shown")

	page.Click("#pause")
	var list []observe.Violation
	for range 30 {
		list = append(list, denial("user:mallory", "free", "login"))
	}
	f.tick(observe.Tick{Point: counted(0, 31), Violations: append(list, denial("user:mallory", "free", ""))})
	page.WaitText("#pause", "31 new")
	rows(2)
	page.Press("p")
	rows(3)
	for _, want := range []string{"user:mallory", "31", "free, free / login"} {
		if got := page.Text(feedRows); !strings.Contains(got, want) {
			t.Errorf("the first row is %q, want %q in it", got, want)
		}
	}
	page.WaitText(".counts", "33 violations of 3 subjects shown")

	would := denial("user:mallory", "free", "trial") // allowed, and does not look like a denial
	would.Reason = "shadow"
	banned := denial("ip:203.0.113.7", "anonymous", "login")
	banned.Reason = "ban"
	f.tick(observe.Tick{Point: counted(1, 1), Violations: []observe.Violation{would, banned}})
	rows(5)
	page.WaitText("section.violations tr.would", "shadow: not denied")
	page.Click("section.violations .check input")
	rows(35)
	page.Click("section.violations .check input")

	browsertest.Eval[bool](page, `document.activeElement.blur() ?? true`)
	page.Press("/")
	page.Press("EVE login")
	rows(1)
	f.tick(observe.Tick{Violations: []observe.Violation{denial("user:dan", "free", "search"),
		denial("user:eve2", "free", "login")}})
	rows(2)
	page.Click("section.violations .filters button")
	rows(7)
	for _, choice := range []struct {
		label, value string
		want         int
	}{{"Tier", "anonymous", 1}, {"Tier", "", 7}, {"Reason", "ban", 1}, {"Reason", "", 7}, {"Policy", "search", 2}} {
		browsertest.Eval[bool](page, fmt.Sprintf(`(() => {
			const label = [...document.querySelectorAll(".filters label")].find((l) => l.textContent.startsWith(%q));
			const select = label.querySelector("select");
			select.value = %q;
			return select.dispatchEvent(new Event("change"));
		})()`, choice.label, choice.value))
		if got := page.Count(shown); got != choice.want {
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
		f.bans = []control.Ban{ban(name, "hostile", time.Hour, 0)}
		f.subjects["hostile"] = subject(name, control.Limit{Tier: name, Policy: name, Scope: name, Limit: name,
			Algorithm: name, Capacity: 1, Window: 60})
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
	page.Press(kb.Escape)
	page.WaitText("#banner", "token is required")
	page.Click("#banner button")
	page.Wait("document.querySelector('#token').open")
	page.Press("wrong" + kb.Enter)
	page.WaitText("#token-why", "Invalid token")
	page.Press("secret" + kb.Enter)
	page.WaitText("#link", "Live")
	page.Wait("document.querySelector('#banner').hidden")
	if got := browsertest.Eval[string](page, "JSON.stringify({...localStorage}) + document.cookie"); strings.Contains(got, "secret") {
		t.Errorf("the token is kept beyond the tab: %s", got)
	}
	page.Open(f.URL + "/?again")
	page.WaitText("#link", "Live")
	if browsertest.Eval[bool](page, "document.querySelector('#token').open") {
		t.Error("the token is asked for again in the same tab")
	}
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
		f.bans = []control.Ban{ban("ip:203.0.113.x", "abc", time.Hour, 2)}
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
		f.subjects["user:42"] = subject("user:42")
		f.bans = []control.Ban{ban("user:42", "", time.Hour, 0)}
	})
	open(t, f, page, "subject/name/user%3A42")
	page.WaitText(".who", "the server has no tokens")
	if got := page.Count(".who button:not(:disabled)"); got != 0 {
		t.Errorf("%d buttons can be pressed, want 0", got)
	}
	open(t, f, page, "bans")
	page.WaitText("section.bans td button:disabled", "Unban")
	f.change(func() { f.state.Who = "prometheus" })
	page.Open(f.URL + "/?again#/subject/name/user%3A42")
	page.WaitText(".who", "The token of prometheus has the role read.")
}
