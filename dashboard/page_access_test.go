package dashboard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/observe"
)

// TestAccess: every view and dialog, with data in it, light and dark, on a desktop and on a phone,
// passes axe-core and the rules of ownRules.
func TestAccess(t *testing.T) {
	browser := browsertest.Start(t)
	for _, size := range [][2]int{{1280, 860}, {390, 844}} {
		t.Run(fmt.Sprint(size[0]), func(t *testing.T) {
			page := browser.Page(t, size[0], size[1])
			page.Prefer("prefers-reduced-motion", "reduce") // no color is between two others
			testAccess(t, page, size[0] < 860)
		})
	}
}

func testAccess(t *testing.T, page *browsertest.Page, phone bool) {
	f := newFixture(t)
	f.busy()
	f.change(func() { f.state.Names, f.state.Violations = true, f.state.Violations[:16] }) // rows are alike
	seen := map[string]bool{}
	check := func(where, scheme string, rules ...string) {
		t.Helper()
		page.Prefer("prefers-color-scheme", scheme)
		problems := append(page.Audit(rules...), browsertest.Eval[[]string](page, ownRules)...)
		for _, problem := range problems {
			if !seen[scheme+problem] {
				t.Errorf("%s, %s: %s", where, scheme, problem)
			}
			seen[scheme+problem] = true
		}
	}
	audit := func(where string) {
		t.Helper()
		now := time.Now() // the page does without the server for ten seconds
		f.tick(observe.Tick{Point: counted(100, 60), Offenders: []observe.Offender{
			{Kind: "ip", Subject: "ip:203.0.113.9", Ref: "r-ip", Rate: 60, Share: 1,
				First: now.Add(-10 * time.Second), Last: now}}})
		check(where, "light")
		check(where, "dark", "color-contrast") // the rest is the same
	}
	show := func(view, selector string) {
		browsertest.Eval[bool](page, "(location.hash = "+browsertest.Quote("#/"+view)+", true)")
		page.Wait("document.querySelector(" + browsertest.Quote(selector) + ")?.checkVisibility()")
	}
	open(t, f, page, "overview")
	for view := range strings.FieldsSeq(strings.Replace(views, "subject", "subject/ref/r-mallory", 1)) {
		show(view, "#view :is(table, svg, .card)")
		audit(view)
		wide := browsertest.Eval[[]string](page, `[...document.querySelectorAll("body *")]
			.filter((e) => !e.closest("svg, .unseen, thead") && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80))`)
		if len(wide) > 0 {
			t.Errorf("%s: wider than the screen: %q", view, wide)
		}
	}
	if phone {
		page.Click("#menu")
		page.Wait(`document.querySelector("nav").checkVisibility()`)
		audit("the menu")
	}
	show("subject/ref/r-mallory", ".card")
	page.Click("[data-act=ban]")
	audit("the question before a ban")
	page.Press(kb.Escape)
	page.Click("[data-act=raise]")
	audit("the question before a raise")
	page.Press(kb.Escape)
	browsertest.Eval[bool](page, `document.activeElement.blur() ?? true`)
	page.Press("?")
	audit("the help")
	page.Press(kb.Escape)
	show("nowhere", "#notice")
	audit("a notice of a failure")
	f.change(f.trouble)
	page.Open(f.URL + "/?trouble")
	page.Wait(`document.querySelector(".state.bad")`)
	audit("a store that is down")

	page.Expect("503")
	f.change(func() { f.broken = true })
	f.cut()
	page.WaitText("#banner", "The fixture is broken.")
	audit("a server that is down")
	page.Expect("401")
	f.change(func() { f.broken, f.token = false, "secret" })
	page.Open(f.URL + "/?token")
	page.Wait("document.querySelector('#token').open")
	audit("the sign-in form")
	page.Press("wrong" + kb.Enter)
	page.WaitText("#token-why", "Invalid token")
	audit("a wrong token")
}

// ownRules are rules that axe-core does not have or applies less strictly. It returns what breaks
// them: borders of controls have a contrast of 3:1 to what is around them; what can be clicked is
// 24 pixels high and wide, unless it is a link in a sentence; on a phone, fields have text of 16
// pixels, without which phones zoom in, and the closed navigation takes less than a tenth of the
// screen.
const ownRules = `(() => {
	const problems = [];
	const top = document.querySelector("dialog[open]") ?? document;
	const all = (selector) => [...top.querySelectorAll(selector)].filter((e) => e.checkVisibility() && !e.matches(".skip"));
	const name = (e) => e.outerHTML.slice(0, 120);
	const parse = (color) => color.match(/[\d.]+/g).map(Number);
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const [r, g, b, alpha = 1] = parse(getComputedStyle(e).backgroundColor);
			if (alpha === 1) return [r, g, b];
		}
		return [255, 255, 255];
	};
	const luminance = (rgb) => {
		const [r, g, b] = rgb.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const contrast = (a, b) => {
		const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
		return (light + 0.05) / (dark + 0.05);
	};
	for (const e of all("button:not(:disabled), input:not([type=checkbox]), select")) {
		const style = getComputedStyle(e);
		for (const side of ["Top", "Right", "Bottom", "Left"]) {
			const [r, g, b, alpha = 1] = parse(style["border" + side + "Color"]);
			if (parseFloat(style["border" + side + "Width"]) === 0 || alpha === 0) continue;
			const found = contrast([r, g, b], behind(e.parentElement));
			if (found < 3) problems.push("border-contrast: " + found.toFixed(2) + ", want 3: " + name(e));
		}
	}
	const inSentence = (e) => e.matches("a") && [...e.parentElement.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
	for (const e of all("a[href], button, input, select, summary, [role=slider]")) {
		const { width, height } = (e.closest("label") ?? e).getBoundingClientRect();
		if (Math.min(width, height) < 23.9 && !inSentence(e)) problems.push("target: " + width + "x" + height + ", want 24: " + name(e));
	}
	if (innerWidth > 860) return problems;
	for (const e of all("input:not([type=checkbox]), select")) {
		const size = parseFloat(getComputedStyle(e).fontSize);
		if (size < 16) problems.push("field: text of " + size + " pixels, want 16: " + name(e));
	}
	const high = document.querySelector("header.rail").offsetHeight;
	if (!document.querySelector("#menu[aria-expanded=true]") && high > innerHeight / 10) problems.push("navigation: " + high + " pixels high");
	return problems;
})()`

// testFocus: the focus is where the user expects it after an action, and is not lost when
// what has it is drawn again.
func testFocus(t *testing.T, f *fixture, page *browsertest.Page) {
	bans := func(refs ...string) (list []control.Ban) {
		for _, ref := range refs {
			list = append(list, ban("user:"+ref, ref, time.Hour, 1))
		}
		return list
	}
	f.busy()
	f.change(func() {
		f.subjects["user:42"] = subject("user:42")
		f.bans = bans("a", "b", "c")
	})
	focus := func(selector string) {
		t.Helper()
		page.Wait("document.querySelector(" + browsertest.Quote(selector) + ")")
		browsertest.Eval[bool](page, "document.querySelector("+browsertest.Quote(selector)+").focus() ?? true")
	}
	focused := func(selector string) {
		t.Helper()
		page.Wait("document.activeElement.matches(" + browsertest.Quote(selector) + ")")
	}
	confirm := func() {
		t.Helper()
		page.Wait("document.querySelector('#confirm').open")
		browsertest.Eval[bool](page, "document.querySelector('#confirm [value=ok]').focus() ?? true")
		page.Press(kb.Enter)
		page.Wait("!document.querySelector('#confirm').open")
	}

	open(t, f, page, "subject/name/user%3A42")
	focus("[data-act=ban]")
	page.Press(kb.Enter)
	page.Wait("document.querySelector('#confirm').open")
	page.Press(kb.Escape)
	focused("[data-act=ban]")
	banned := subject("user:42")
	banned.Ban.Until = time.Now().Add(time.Hour)
	f.change(func() { f.subjects["user:42"] = banned })
	page.Press(kb.Enter)
	confirm()
	page.WaitText(".who", "Banned until")
	focused("[data-act=ban]") // drawn again, with another beside it
	focus("[data-act=unban]")
	f.change(func() { f.subjects["user:42"] = subject("user:42") })
	page.Press(kb.Enter)
	confirm()
	page.WaitText(".who", "Not banned")
	focused(".who button") // its own is gone

	open(t, f, page, "bans")
	focus("section.bans tr:nth-child(2) button")
	page.Press(kb.Enter)
	f.change(func() { f.bans = bans("a", "c") })
	confirm()
	page.Wait("document.querySelectorAll('section.bans tbody tr').length === 2")
	focused("section.bans tr:nth-child(2) button") // the next one

	// What has the focus stays when everything around it is drawn again.
	open(t, f, page, "overview")
	focus(".top li:nth-child(2) a")
	href := browsertest.Eval[string](page, "document.activeElement.getAttribute('href')")
	browsertest.Eval[bool](page, "(window.old = document.activeElement, window.other = document.querySelector('.top li'), true)")
	f.tick(observe.Tick{Point: counted(900, 90)})
	page.Wait("!window.other.isConnected")
	focused(".top a[href=" + browsertest.Quote(href) + "]")
	if !browsertest.Eval[bool](page, "document.activeElement === window.old") {
		t.Error("the focus went to another element, which screen readers read again")
	}
}
