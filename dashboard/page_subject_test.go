package dashboard_test

import (
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/observe"
)

// testSubject: of the limits of every tier that could count a subject, those that matter are shown,
// and a subject may be in the address in any spelling.
func testSubject(t *testing.T, f *fixture, page *browsertest.Page) {
	limit := func(tier, text string, used, capacity int64) control.Limit {
		return control.Limit{Tier: tier, Limit: text, Algorithm: "sliding", Max: capacity, Capacity: capacity,
			Window: 60, Used: used, Remaining: capacity - used}
	}
	v := denial("user:mallo…", "free", "")
	would := denial("user:mallo…", "pro", "")
	would.Reason = "shadow"
	trial := limit("free", "10/10s", 10, 10)
	trial.Shadow = true
	f.change(func() {
		for _, name := range []string{"ip:2001:db8::/64", "user:a/b%"} {
			f.subjects[name] = subject(name)
		}
		f.subjects["user:mallory"] = subject("user:mallory",
			limit("pro", "300/1m", 30, 300), limit("free", "500/1h", 30, 500), limit("free", "5000/1d", 0, 5000),
			limit("free", "30/1m", 30, 30), limit("", "100/1s", 1, 100), trial)
		f.subjects[v.Ref] = f.subjects["user:mallory"]
		f.state.Violations = []observe.Violation{v, would}
	})
	const cards = "[...document.querySelectorAll('.card h3')].map((n) => n.textContent).join()"
	open(t, f, page, "subject/user:mallory")
	page.Wait(cards + " === '30/1m,300/1m,500/1h,100/1s,10/10s'")
	if got, full := page.Text(".card:last-child"), page.Count(".card.full"); !strings.Contains(
		got, "shadow: not enforced") || full != 1 {
		t.Errorf("a limit in shadow says %q, and %d are full; want that it is not enforced, and one other", got, full)
	}
	page.WaitText(".idle summary", "1 unused limit")
	page.Click(".idle summary")
	page.WaitText(".idle li", "5000/1d")
	open(t, f, page, "subject/ref/"+v.Ref)
	page.Wait(cards + " === '30/1m,500/1h,100/1s,10/10s'")
	page.WaitText(".tiers", "last denial was in tier free")
	browsertest.Eval[bool](page, `(() => {
		const select = document.querySelector(".tiers select");
		select.value = "";
		return select.dispatchEvent(new Event("change"));
	})()`)
	page.Wait(cards + " === '30/1m,300/1m,500/1h,100/1s,10/10s'")

	for address, want := range map[string]string{
		"name/ip%3A2001%3Adb8%3A%3A%2F64": "ip:2001:db8::/64", "ip:2001:db8::/64": "ip:2001:db8::/64",
		"user:a/b%25": "user:a/b%",
	} {
		open(t, f, page, "subject/"+address)
		page.Wait("!document.querySelector('.who').closest('[hidden]') && document.querySelector('.who h2').textContent === " + browsertest.Quote(want))
	}
	for _, address := range []string{"subject", "subject/name/"} {
		page.Open(f.URL + "/?new#/" + address)
		page.WaitText("section.subject .empty", "Enter a subject")
	}
	page.Open(f.URL + "/?new#/nowhere/<b>")
	page.WaitText("#notice", "There is no view “nowhere”.")
	page.Wait("document.querySelector('section.overview')")
	page.Click("#notice button")
	page.Wait("document.querySelector('#notice').hidden")
}
