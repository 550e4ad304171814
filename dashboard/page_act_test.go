package dashboard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/dashboard"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/observe"
)

// testOffenders: an offender is listed with what is needed to decide, and banned right there.
// The focus stays on the button, although the list is painted again.
func testOffenders(t *testing.T, f *fixture, page *browsertest.Page) {
	now := time.Now()
	mallory := observe.Offender{Kind: "user", Subject: "user:mallory", Ref: "m", Denied: 900, AtLeast: 900,
		Policy: "login", Rate: 61.5, Share: 0.94, First: now.Add(-4 * time.Minute), Last: now.Add(-time.Second),
		Policies: []string{"login", "tier free"}}
	f.change(func() {
		f.state.Top["user"] = []observe.Offender{mallory}
		f.state.Top["policy"] = []observe.Offender{{Kind: "policy", Subject: "tier free", Denied: 900, AtLeast: 900}}
		f.state.Config.Tiers = []dashboard.RuleList{{Name: "free"}}
	})
	open(t, f, page, "offenders")
	page.WaitText("section.offenders tbody tr", "user:mallory")
	for _, want := range []string{"61.5/s", "94%", "900", "login, tier free",
		mallory.First.Format("15:04:05"), mallory.Last.Format("15:04:05")} {
		if got := page.Text("section.offenders tbody tr"); !strings.Contains(got, want) {
			t.Errorf("the row %q does not have %q", got, want)
		}
	}
	page.WaitText("section.offenders .heading", "Subjects with the most denials since the start ")
	page.Click("#tab-policy")
	page.Click("section.offenders tbody a")
	page.Wait(`[...document.querySelectorAll(".filters select")].map((s) => s.value).join() === "free,,"`)
	open(t, f, page, "offenders")
	page.Click("#tab-user")
	press := func(button, notice string) {
		t.Helper()
		page.Click("section.offenders tbody button[aria-label='" + button + "']")
		page.Wait("document.querySelector('#confirm').open")
		f.tick(observe.Tick{Point: counted(1, 1)})
		page.Click("#confirm [value=ok]")
		page.WaitText("#notice", notice)
		page.Wait("document.activeElement.getAttribute('aria-label') === " + browsertest.Quote(button))
	}
	f.change(func() {
		mallory.Banned = 12
		f.state.Top["user"] = []observe.Offender{mallory}
	})
	press("Ban user:mallory", "Ban user:mallory: done.")
	page.WaitText("section.offenders tbody tr", "The ban has matched 12 requests.")
	page.Wait("document.activeElement.getAttribute('aria-label') === 'Ban user:mallory'")
	press("Reset user:mallory", "Reset user:mallory: done.")
	want := []write{{path: "/api/ban", body: `{"ref":"m","for":"10m"}`}, {path: "/api/reset", body: `{"ref":"m"}`}}
	if got := f.written(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("written %v, want %v", got, want)
	}

	// The page of the subject has its last denials.
	f.change(func() {
		f.subject = map[string]any{
			"subject": "user:mallory", "ref": "m", "now": now, "denials": mallory,
			"ban": driver.BanState{Until: now.Add(time.Hour)}, "limits": []control.Limit{}}
		other := denial("user:eve", "free", "search")
		mine := denial("user:mallory", "free", "login")
		mine.Ref = "m"
		f.state.Violations = []observe.Violation{mine, other, mine}
	})
	page.Open(f.URL + "/?#/subject/ref/m")
	page.WaitText(".denials .facts", "61.5/s in the last 10 s, 94% denied")
	page.Wait("document.querySelectorAll('.denials tbody tr').length === 2")
	page.WaitText(".denials tbody tr", "free / login")
}
