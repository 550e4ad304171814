package e2e

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
)

// openRaise opens the form that raises a limit.
func openRaise(page *browsertest.Page) {
	page.Click("[data-act=raise]")
	page.Wait("document.querySelector('#raise').open")
}

// TestRaise: on the page of a subject, an operator raises its limit until tomorrow. That is in
// force on another server, too, and what is used stays. A reader cannot.
func TestRaise(t *testing.T) {
	shared := sharing(redistest.Start(t).URL())
	patient := "failure: {budget: 10s}\n" + five
	one, two := start(t, patient, withToken(t), shared), start(t, patient, withToken(t), shared)
	one.use("42", 5)
	if one.take("42") || two.take("42") {
		t.Fatal("the sixth of five is allowed")
	}
	page := browsertest.Start(t).Page(t, 1280, 900)
	one.signIn(page, "subject/user:42", operator)
	page.WaitText(".card", "5 of 5 used")
	openRaise(page)
	page.Click("#raise [value=ok]")
	page.WaitText("#notice", "Raise user:42: done.")
	page.WaitText(".overrides tbody", "10/1h")
	page.WaitText(".overrides tbody", "alice")
	page.WaitText(".card header", "override, configured 5/1h")
	testkit.Eventually(t, "the other server knows of it", func() bool { return two.take("42") })

	client := two.client(operator)
	s, err := client.Subject(t.Context(), control.Target{Subject: "user:42"})
	now := time.Now()
	end := time.Date(now.Year(), now.Month(), now.Day()+2, 0, 0, 0, 0, time.Local)
	if err != nil || len(s.Overrides) != 1 || s.Limits[0].Used != 6 || s.Limits[0].Max != 10 {
		t.Fatalf("got %+v, %v", s, err)
	}
	if got := s.Overrides[0].Until; got.Sub(end).Abs() > 24*time.Hour { // the day may change meanwhile
		t.Errorf("it ends at %s, want the end of tomorrow, %s", got, end)
	}

	// Higher, to a day, with a reason; then removed.
	openRaise(page)
	browsertest.Eval[bool](page, `(() => {
		const { end, date, max } = document.querySelector("#raise form").elements;
		max.value = "20";
		end.value = "day";
		end.dispatchEvent(new Event("change"));
		date.value = "2099-12-31";
		return !document.querySelector("#raise-date").hidden;
	})()`)
	page.Type("#raise [name=why]", "TICKET-8"+kb.Enter)
	page.WaitText(".overrides tbody", "TICKET-8")
	page.WaitText(".overrides tbody", "20/1h")
	page.Click(".overrides tbody button")
	page.WaitText("#confirm-title", "Remove the override of user:42?")
	page.Click("#confirm [value=ok]")
	page.Wait("document.querySelector('.overrides').hidden")
	testkit.Eventually(t, "the other server has the configured limit", func() bool {
		s, err := client.Subject(t.Context(), control.Target{Subject: "user:42"})
		return err == nil && len(s.Overrides) == 0 && s.Limits[0].Max == 5 && s.Limits[0].Used == 6
	})
	page.Click("nav [data-view=audit]")
	page.WaitText("section.audit tbody", "limits unset all")
	page.WaitText("section.audit tbody", "TICKET-8")
}

// TestRaiseKeepsOthers: to raise one limit of a policy on the page leaves another one lowered.
func TestRaiseKeepsOthers(t *testing.T) {
	r := start(t, "tiers:\n  - {name: all, identity: [user, ip], limits: [5/1h, 50/1d]}\n", withToken(t))
	client := r.client(operator)
	who := control.Target{Subject: "user:42"}
	if _, err := client.SetOverride(t.Context(), control.SetRequest{Target: who, Policy: "all",
		Limits: []stint.Limit{stint.PerDay(20)}, Lower: true}); err != nil {
		t.Fatal(err)
	}
	r.use("42", 5)
	page := browsertest.Start(t).Page(t, 1280, 900)
	r.signIn(page, "subject/user:42", operator)
	page.WaitText(".card", "5 of 5 used")
	openRaise(page)
	page.Click("#raise [value=ok]")
	page.WaitText(".overrides tbody", "10/1h")
	subject := testkit.Must(client.Subject(t.Context(), who))(t)
	for _, l := range subject.Limits {
		if want := map[float64]int64{3600: 10, 86400: 20}[l.Window]; l.Max != want {
			t.Errorf("got %s, want %d", l.Limit, want)
		}
	}
}
