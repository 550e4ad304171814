package e2e

import (
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/browsertest"
)

// TestNames: an operator sees whom limits and operators act on, and can hide it from a screen that
// others see. A reader sees shortened names, each different.
func TestNames(t *testing.T) {
	r := start(t, five, withToken(t))
	r.use("customer-1", 8)
	r.use("customer-2", 7)
	browser := browsertest.Start(t)

	page := browser.Page(t, 1280, 900)
	r.signIn(page, "subject/user:customer-1", operator)
	act(page, "ban")
	page.WaitText("#notice", "Ban user:customer-1: done.")
	for _, view := range []string{"violations", "offenders", "bans", "audit"} {
		page.Click("nav [data-view=" + view + "]")
		page.WaitText("section."+view+" tbody", "user:customer-1")
	}

	// Hidden at once, everywhere, in the address too, and still so when the page is loaded again.
	hidden := func(view string) {
		t.Helper()
		page.WaitText("section."+view, "user:custom…#")
		got := browsertest.Eval[string](page, "location.href + document.body.innerText")
		if strings.Contains(got, "customer") {
			t.Errorf("%s: a name is on the page: %s", view, got)
		}
	}
	page.Click("#names")
	page.WaitText("#names", "Names: hidden")
	hidden("audit")
	for _, view := range []string{"violations", "offenders", "bans"} {
		page.Click("nav [data-view=" + view + "]")
		hidden(view)
	}
	page.Open(r.admin + "/?again#/subject/user:customer-2")
	hidden("subject")
	act(page, "reset")
	page.WaitText("#notice", "Reset user:custom…#")
	page.Press("n")
	page.WaitText("#names", "Names: shown")
	page.WaitText(".who h2", "user:customer-2")
	page.Click("nav [data-view=audit]")
	page.WaitText("section.audit tbody", "user:customer-2")

	other := browser.Page(t, 1280, 900)
	r.signIn(other, "offenders", reader)
	other.Wait("document.querySelectorAll('section.offenders tbody tr').length === 2")
	rows := browsertest.Eval[[]string](other, "[...document.querySelectorAll('section.offenders td.subject a')].map((a) => a.textContent)")
	if rows[0] == rows[1] || !strings.HasPrefix(rows[0], "user:custom…#") {
		t.Errorf("a reader sees %q", rows)
	}
	if !browsertest.Eval[bool](other, "document.querySelector('#names').hidden") {
		t.Error("a reader has a button for names")
	}
}
