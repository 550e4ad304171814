package dashboard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/observe"
)

// busyReports are of a policy that would hit a few, and of a tier that would hit none.
func busyReports(now time.Time) []observe.ShadowReport {
	var minutes []observe.ShadowCounts
	for i, denied := range []int64{2, 4, 9, 31, 44, 12, 6, 3, 1, 0} {
		minutes = append(minutes, observe.ShadowCounts{Requests: 900 + 40*int64(i%3), Denied: denied})
	}
	return []observe.ShadowReport{
		{
			Tier: "free", Policy: "search-strict", Limits: []string{"20/1m"}, Since: now.Add(-26 * time.Hour),
			Total:  observe.ShadowCounts{Requests: 1_204_113, Denied: 13_370, Subjects: 9120, Hit: 61, Estimated: true},
			Recent: observe.ShadowCounts{Requests: 9000, Denied: 112, Subjects: 412, Hit: 3}, RecentSeconds: 587,
			Minutes: minutes,
			Top: []observe.Offender{
				{Kind: "apikey", Subject: "apikey:k_7f2…", Ref: "r-key", Denied: 9210, AtLeast: 9198,
					Policy: "search-strict"},
				{Kind: "user", Subject: "user:mallo…", Ref: "r-mallory", Denied: 2011, AtLeast: 1987,
					Policy: "search-strict"},
			},
		},
		{
			Tier: "pro", Limits: []string{"100/1m burst 3x", "2000/1h"}, Since: now.Add(-40 * time.Second),
			Total:  observe.ShadowCounts{Requests: 220, Subjects: 31},
			Recent: observe.ShadowCounts{Requests: 220, Subjects: 31}, RecentSeconds: 40.2, Minutes: minutes[:1],
			Top: []observe.Offender{},
		},
	}
}

// testShadow: a rule in shadow says what it would have done, and to whom.
func testShadow(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "shadow")
	page.WaitText("section.shadow .empty", "No rule is in shadow")
	f.change(func() {
		f.reports = busyReports(time.Now())
		f.subjects["r-key"] = subject("apikey:k_7f2a")
	})
	page.Click("nav [data-view=limits]")
	page.Press("gd")
	page.WaitText(".reports .card", "free / search-strict")
	got := browsertest.Eval[string](page, `document.querySelector(".reports").textContent`)
	for _, want := range []string{
		"20/1m",
		"If this were enforced, it would have denied 112 of 9,000 requests in the last 10 m (1.24%), from 3 of 412 subjects. 99.3% of the subjects would not be affected.",
		"it would have denied 13,370 of 1,204,113 requests since it started 1 d 2 h ago (1.11%), from 61 of about 9,120 subjects.",
		"Would have been denied, by minute: at most 44 of 940 requests", "apikey:k_7f2…", "9,198 to 9,210",
		"it would have denied none of 220 requests in the last 40 s, and none of 31 subjects.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it says %q, and not %q", got, want)
		}
	}
	if n := page.Count(".reports .card:nth-child(2) p"); n != 1 { // all of it is recent
		t.Errorf("a report that has just begun has %d sentences, want 1", n)
	}
	if cards, charts := page.Count(".reports .card"), page.Count(".reports figure svg"); cards != 2 || charts != 1 {
		t.Errorf("%d cards and %d charts, want 2 and one of a report that is minutes old", cards, charts)
	}
	page.Click(".reports a.subject")
	page.WaitText("section.subject h2", "apikey:k_7f2a")
}
