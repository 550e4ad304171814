package dashboard_test

import (
	"fmt"
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
}

// testProcesses: the page shows each of several processes, and says at once which one is silent.
func testProcesses(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "overview")
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
	page.WaitText(".violations .counts", "of web-1/7 only: the other process lists its own")
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
	page.WaitText(".verdict .sees", "A change of the configuration denies requests.")
	page.WaitText(".verdict .cause", "api for enterprise from 500/1m to 50/1m; 8 subjects denied that were not before (stint.yaml).")
	if wrong := page.Audit(); len(wrong) > 0 {
		t.Error(wrong)
	}
	f.tick(observe.Tick{Processes: []observe.Process{{Name: "web-1/7", Self: true, Config: "policies 1a"},
		{Name: "web-2/7", Config: "policies 2b"}}})
	page.WaitText(".verdict", "The process web-2/7 (policies 2b) has another configuration in force than web-1/7 (policies 1a).")
}

func testCause(t *testing.T, f *fixture, page *browsertest.Page) {
	many := func(denied ...int64) (list []observe.Offender) {
		for i, n := range denied {
			list = append(list, observe.Offender{Kind: "user", Subject: fmt.Sprint("user:", i), Ref: fmt.Sprint(i),
				Denied: n, AtLeast: n})
		}
		return list
	}
	policy := func(denied ...int64) (list []observe.Offender) {
		for i, n := range denied {
			list = append(list, observe.Offender{Kind: "policy", Subject: fmt.Sprint("policy", i),
				Denied: n, AtLeast: n})
		}
		return list
	}
	sampled := func(list []observe.Offender) []observe.Offender { // as in a flood
		for i := range list {
			list[i].AtLeast /= 64
		}
		return list
	}
	tests := []struct {
		name          string
		denied        int64
		users, policy []observe.Offender
		class, want   string
	}{
		{"quiet", 0, nil, nil, "quiet", "Nobody was limited"},
		{"few", 5, many(5), policy(5), "quiet", "The limits work as intended"},
		{"nothing known yet", 500, nil, nil, "quiet", "not known yet"},
		{"one abuser", 500, many(450, 20, 10), policy(480), "abuse", "1 subject makes up 93.8 % of the recent denials"},
		{"two abusers", 500, many(200, 180, 20), policy(480), "abuse", "2 subjects make up"},
		{"a flood", 500, sampled(many(45_000, 2000, 1000)), sampled(policy(48_000)), "abuse",
			"1 subject makes up 93.8 %"},
		{"a tight policy", 500, many(9, 9, 9, 9), policy(450, 30), "policy", "93.8 % of them come from one rule, "},
		{"everywhere", 500, many(9, 9, 9, 9), policy(200, 150, 150), "spread", "no single one explains them"},
	}
	for _, test := range tests {
		f.change(func() {
			f.state.Points = []observe.Point{counted(1000, test.denied)}
			f.state.Points[0].At = time.Now().Unix()
			f.state.Top = map[string][]observe.Offender{"user": test.users, "policy": test.policy}
		})
		page.Open(f.URL + "/?" + test.class + test.name)
		page.WaitText(".verdict .cause", test.want)
		if page.Count(".verdict .cause."+test.class) != 1 {
			t.Errorf("%s: not of class %s", test.name, test.class)
		}
	}
}

// testAttack: within a tick of a flood the page says who is attacking, and that the limiter is
// healthy all the same. Alerts about requests are not about its health.
func testAttack(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "overview")
	page.WaitText(".verdict h1", "Limiter healthy. Nobody is limited.")
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
	page.WaitText(".verdict h1", "Limiter healthy. Under attack: ip:203.0.113.9 60 requests/s, 100 % denied.")
	if got := page.Count(".verdict h1 a[href='#/subject/ref/r']"); got != 1 {
		t.Errorf("%d links to the attacker, want 1", got)
	}
	flood(6, 0.5, 10) // too few
	page.Wait("!document.querySelector('.verdict h1').textContent.includes('attack')")
	flood(60, 1, 400) // others are denied much more
	page.Wait("!document.querySelector('.verdict h1').textContent.includes('attack')")
	flood(6000, 0.9, 0)
	page.WaitText(".verdict h1", "Under attack: ip:203.0.113.9 6000 requests/s, 90 % denied.")
	f.tick(observe.Tick{Point: counted(100, 0)})
	page.Wait("!document.querySelector('.verdict h1').textContent.includes('attack')")
}

// testStoreDown: the page says what decides without the store, and how old figures are.
func testStoreDown(t *testing.T, f *fixture, page *browsertest.Page) {
	page.Expect("503")
	at := time.Now().Add(-time.Minute)
	store := observe.StoreHealth{Kind: "redis", Name: "redis://cache", Up: true, Breaker: "closed", At: at,
		Redis: &observe.RedisInfo{UsedMemory: 5 << 20}}
	f.change(func() {
		f.state.Store = store
		f.state.Config.Tiers = []dashboard.RuleList{{Name: "free", Failure: "local"}, {Name: "pro", Failure: "local"}}
		f.state.Config.Policies = []dashboard.RuleList{{Name: "login", Failure: "deny"}}
		f.bans = []control.Ban{{Banned: driver.Banned{Subject: "user:42",
			BanState: driver.BanState{Until: time.Now().Add(time.Hour)}}}}
		f.subjects["user:42"] = control.Subject{Named: control.Named{Subject: "user:42"}, Now: time.Now()}
	})
	open(t, f, page, "overview")
	page.WaitText(".strip", "5 MiB")
	if got := page.Text(".strip"); strings.Contains(got, "as of") {
		t.Errorf("while the store is up: %q", got)
	}
	since := time.Now().Add(-3 * time.Second)
	store.Up, store.DownSince, store.Breaker = false, &since, "open"
	store.Outage = &observe.Outage{Since: since, Fault: "silent", Is: "accepts connections but does not answer",
		Why: "It is stopped.", Fix: "Continue it.", Error: "stint: take: context deadline exceeded"}
	f.tick(observe.Tick{Store: store, Alerts: []observe.Alert{{Name: "StoreDown", Severity: "page", State: "pending",
		Unit: "s", Value: 3, Threshold: 60, Since: since}}})
	page.WaitText(".verdict h1", "Limiter degraded: Redis accepts connections but does not answer.")
	for _, text := range []string{"Redis has been down for ", "It is stopped.", "Fix: Continue it.",
		"Last error: stint: take: context deadline exceeded"} {
		page.WaitText(".why", text)
	}
	page.WaitText(".why", "Local limits apply to the tiers free, pro.")
	page.WaitText(".why", "All requests are denied for the policy login.")
	page.WaitText(".strip", "as of "+at.Format("15:04:05"))
	page.WaitText("#alerts", "pending")
	page.WaitText("#alerts", "fires after 1 m")

	// The list and the subject that are already shown stay, with their time. What is not known yet
	// is not being looked for.
	page.Click("nav [data-view=bans]")
	page.WaitText("section.bans td", "user:42")
	f.change(func() { f.broken = true })
	page.WaitText("section.bans .counts", "List as of ")
	page.WaitText("section.bans td", "user:42")
	f.change(func() { f.broken = false })
	page.Open(f.URL + "/?again#/subject/user:42")
	page.WaitText(".who", "user:42")
	f.change(func() { f.broken = true })
	page.WaitText("section.subject .counts", "As of ")
	page.Click("nav [data-view=bans]")
	page.WaitText("section.bans .empty", "Cannot load the bans: The fixture is broken.")
	if got := page.Text("section.bans"); strings.Contains(got, "Loading") {
		t.Errorf("the bans say %q", got)
	}
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

// testNoGap: what happens while the page loads is shown once, whether the state has it or not.
func testNoGap(t *testing.T, f *fixture, page *browsertest.Page) {
	now, eve, bob := time.Now().Unix(), denial("user:eve", "", ""), denial("user:bob", "", "")
	f.change(func() {
		f.state.Points, f.state.Violations = []observe.Point{{At: now}}, []observe.Violation{eve}
		f.loading = func() {
			f.tick(observe.Tick{Point: observe.Point{At: now}, Violations: []observe.Violation{eve}})
			f.tick(observe.Tick{Point: observe.Point{At: now + 1}, Violations: []observe.Violation{bob}})
		}
	})
	open(t, f, page, "violations")
	page.WaitText(feedRows, "user:bob")
	page.WaitText("section.violations .counts", "2 violations of 2 subjects shown")
}

func testNarrow(t *testing.T, f *fixture, page *browsertest.Page) {
	f.busy()
	page.Resize(360, 740)
	for view := range strings.FieldsSeq(strings.Replace(views, "subject", "subject/ref/r-mallory", 1)) {
		open(t, f, page, view)
		page.Wait("document.querySelector('#view table, #view svg')")
		wide := browsertest.Eval[[]string](page, `[...document.querySelectorAll("body *")]
			.filter((e) => !e.closest("svg, .unseen, thead") && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80))`)
		if got := browsertest.Eval[int](page, "document.documentElement.scrollWidth"); got > 360 || len(wide) > 0 {
			t.Errorf("%s: %d pixels wide, want 360; too wide: %q", view, got, wide)
		}
		if browsertest.Eval[bool](page, `[...document.querySelectorAll("#view svg.bar rect")].some((r) => r.getBoundingClientRect().height < 1)`) {
			t.Errorf("%s: a bar has no height", view)
		}
	}
}

func testKeyboard(t *testing.T, f *fixture, page *browsertest.Page) {
	f.busy()
	f.change(func() {
		f.subjects["user:42"] = control.Subject{Named: control.Named{Subject: "user:42"}, Now: time.Now()}
	})
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
	if got := page.Text("#helping"); !strings.HasPrefix(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(got),
		"Terms and shortcuts")), "Breaker") || !strings.Contains(got, "sudo cat /var/lib/stint/admin-token") {
		t.Errorf("the help begins with %q", got)
	}
	page.Click("#shortcuts")
	page.Press(kb.Escape)
	page.Wait(`!document.querySelector("#helping").open`)
	page.Press("p")
	if got := browsertest.Eval[string](page, `document.querySelector("#pause").getAttribute("aria-pressed")`); got != "false" {
		t.Error("a single key does something though they are off")
	}
	unnamed := browsertest.Eval[[]string](page, `[...document.querySelectorAll("button, a, input, select")]
		.filter((e) => !(e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.length)).map((e) => e.outerHTML)`)
	if len(unnamed) > 0 {
		t.Errorf("without a name for readers of screens: %q", unnamed)
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

func testBackground(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "violations")
	hide := func(hidden bool) {
		browsertest.Eval[bool](page, fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %v, configurable: true}) && document.dispatchEvent(new Event("visibilitychange"))`, hidden))
	}
	page.Wait("!document.querySelector('.violations .empty').hidden")
	hide(true)
	browsertest.Eval[bool](page, `(window.changes = 0, new MutationObserver((list) => (window.changes += list.length)).observe(document.body, {subtree: true, childList: true}), true)`)
	for i := range 100 {
		f.tick(observe.Tick{Point: counted(10, 1),
			Violations: []observe.Violation{denial(fmt.Sprint("user:", i), "", "")}})
	}
	listening, begun := f.listeners()
	hide(false)
	page.Wait("document.querySelectorAll('" + feedRows + "').length === 100")
	if got := browsertest.Eval[int](page, "window.changes"); got > 120 || listening != 1 || begun != 1 {
		t.Errorf("%d changes of the document for 100 ticks in the background, %d streams of %d", got, listening, begun)
	}
}

func testThemes(t *testing.T, f *fixture, page *browsertest.Page) {
	const paper = `getComputedStyle(document.body).backgroundColor`
	page.Prefer("prefers-color-scheme", "dark")
	open(t, f, page, "overview")
	dark := browsertest.Eval[string](page, paper)
	page.Prefer("prefers-color-scheme", "light")
	light := browsertest.Eval[string](page, paper)
	if dark == light {
		t.Errorf("light and dark are both %s", light)
	}
	for _, want := range []struct{ name, color string }{{"light", light}, {"dark", dark}} {
		page.Press("t")
		page.WaitText("#theme", want.name)
		page.Wait(paper + " === " + browsertest.Quote(want.color))
	}
	page.Open(f.URL + "/?again")
	page.WaitText("#theme", "dark")
	if got := browsertest.Eval[string](page, paper); got != dark {
		t.Errorf("the choice of colors is not kept: %s, want %s", got, dark)
	}
	page.Click("#theme")
	page.WaitText("#theme", "auto")
}

// testRates: rates are of the seconds that are known, from the first on.
func testRates(t *testing.T, f *fixture, page *browsertest.Page) {
	now := time.Now().Unix()
	f.change(func() {
		for i := range int64(25) {
			point := counted(10, 0)
			point.At = now - 24 + i
			f.state.Points = append(f.state.Points, point)
		}
		ten := observe.Counts{Allowed: 75, Denied: 25}
		f.state.Long = []observe.Point{{At: now - 15, Counts: observe.Counts{Allowed: 100}},
			{At: now - 5, Counts: observe.Counts{Allowed: 100}}}
		f.state.Series = []observe.Series{
			{Tier: "pro", Policy: "search", Total: observe.Counts{Allowed: 150, Denied: 50},
				Recent: []observe.Counts{ten, ten}}}
	})
	open(t, f, page, "overview")
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
	page.WaitText(".multiple[data-name=pro]", "24.2 % denied")
	page.WaitText(".multiple[data-name=new]", "2/s") // 48 of those 24 seconds
	page.WaitText(".summary", "10 decisions/s in the last minute")
	page.Click(".multiple[data-name=pro]")
	page.WaitText(".overview .main .legend", "allowed8/s")
}

func testOneTier(t *testing.T, f *fixture, page *browsertest.Page) {
	f.busy()
	open(t, f, page, "overview")
	page.Click(".multiple[data-name=pro]")
	page.WaitText(".chip", "tier pro")
	if !browsertest.Eval[bool](page, `[...document.querySelectorAll(".ranges button")].at(-1).disabled`) {
		t.Error("two hours of one tier can be asked for, and are not kept")
	}
	page.Click("nav [data-view=violations]")
	page.Wait(`document.querySelector("section.violations select")?.value === "pro"`)
	page.Click("nav [data-view=overview]")
	page.Click(".chip")
	page.Wait(`document.querySelector(".chip").hidden`)
	page.Click(".ranges button:last-child")
	page.Wait(`document.querySelector(".ranges button:last-child").getAttribute("aria-pressed") === "true"`)
}
