package e2e

import (
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/browsertest"
)

// act presses a button of the subject's page, and says yes.
func act(page *browsertest.Page, name string) {
	page.Click("[data-act=" + name + "]")
	page.Wait("document.querySelector('#confirm').open")
	page.Click("#confirm [value=ok]")
}

// TestActs: what an operator does on the page is in force.
func TestActs(t *testing.T) {
	r := start(t, five, withToken(t))
	page := browsertest.Start(t).Page(t, 1280, 900)
	r.signIn(page, "subject/user:42", operator)
	allowed := func(want bool, when string) {
		t.Helper()
		if got := r.take("42"); got != want {
			t.Errorf("%s: allowed is %t, want %t", when, got, want)
		}
	}
	allowed(true, "before anything")

	act(page, "ban")
	page.WaitText("#notice", "Ban user:42: done.")
	allowed(false, "after the ban")
	page.WaitText(".banned", "Banned until")

	act(page, "unban")
	page.WaitText("#notice", "Unban user:42: done.")
	allowed(true, "after the end of the ban")
	r.use("42", 5)
	allowed(false, "over the limit")
	page.WaitText(".card.full", "5 of 5 used")
	act(page, "reset")
	page.WaitText("#notice", "Reset user:42: done.")
	allowed(true, "after the reset")

	page.Click("nav [data-view=audit]")
	page.Wait("document.querySelectorAll('section.audit tbody tr').length === 3")
	if got := page.Text("section.audit tbody"); strings.Count(got, "alice") != 3 {
		t.Errorf("the audit says %q, want alice three times", got)
	}
}
