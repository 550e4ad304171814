package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/stint-limiter/stint/internal/browsertest"
)

// TestViolationsAppear: denials appear. It ought to be there within two seconds; the time is in the
// log of the test.
func TestViolationsAppear(t *testing.T) {
	r := start(t, five)
	page := browsertest.Start(t).Page(t, 1280, 900)
	r.open(page, "violations")
	r.use("mallory", 6)
	began := time.Now()
	page.WaitText("section.violations tbody tr", "user:mallo")
	t.Logf("a violation is on the page %v after it was answered", time.Since(began).Round(time.Millisecond))
	page.Click("section.violations tbody tr a")
	page.WaitText(".who h2", "user:mallory")
	page.WaitText(".card.full", "5 of 5 used")
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

// TestBanAsTyped: an address is banned with all that are counted as one with it, and the page says
// so.
func TestBanAsTyped(t *testing.T) {
	r := start(t, five, withToken(t))
	page := browsertest.Start(t).Page(t, 1280, 900)
	page.Expect("400")
	r.signIn(page, "subject", operator)
	look := func(text string) {
		page.Wait("document.querySelector('section.subject input').value = ' '") // what was typed before is gone
		page.Type("section.subject input", text+kb.Enter)
	}
	look("ip:203.0.113.0/24")
	page.WaitText("section.subject .empty", "203.0.113.0/24 is a network of many subjects")
	look("ip:203.0.113.x")
	page.WaitText("section.subject .empty", "is a shortened subject from a list")
	look("ip:2001:DB8:9:9::7")
	page.WaitText(".who h2", "ip:2001:db8:9:9::/64")
	page.WaitText(".who .note", "2001:DB8:9:9::7 is counted under it.")
	act(page, "ban")
	page.WaitText("#notice", "Ban ip:2001:db8:9:9::/64: done.")
	for peer, want := range map[string]int{"2001:db8:9:9::8": http.StatusTooManyRequests,
		"2001:db8:9:a::7": http.StatusOK} {
		if got := r.post("/v1/take", map[string]any{"method": "GET", "path": "/", "peer": peer}); got != want {
			t.Errorf("a request from %s got %d, want %d", peer, got, want)
		}
	}
}

// act presses a button of the subject's page, and says yes.
func act(page *browsertest.Page, name string) {
	page.Click("[data-act=" + name + "]")
	page.Wait("document.querySelector('#confirm').open")
	page.Click("#confirm [value=ok]")
}

// TestLink: a link of another site leads to the page, which then works, and the other site gets
// nothing else.
func TestLink(t *testing.T) {
	r := start(t, five, withToken(t))
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!doctype html><title>chat</title><a id=page href=%q>page</a> <a id=metrics href=%q>metrics</a>`, r.admin+"/#/violations", r.admin+"/metrics")
	}))
	defer site.Close()
	elsewhere := strings.Replace(site.URL, "127.0.0.1", "localhost", 1)
	page := browsertest.Start(t).Page(t, 1280, 900)
	page.Expect("401")
	page.Expect("403")
	page.Open(elsewhere)
	page.Click("#metrics")
	page.WaitText("body", "Requests from pages of other sites are not allowed.")
	page.Open(elsewhere)
	page.Click("#page")
	page.Wait("document.querySelector('#token')?.open")
	page.Press(operator + kb.Enter)
	page.WaitText("#link", "Live")
}
