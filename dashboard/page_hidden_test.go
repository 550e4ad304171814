package dashboard_test

import (
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
)

// testHidden: a hidden page stops listening after a while, starts again when it is shown, and says
// what it missed.
func testHidden(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "violations")
	hear := func(subject string) {
		t.Helper()
		f.tick(observe.Tick{Point: counted(1, 1), Violations: []observe.Violation{denial(subject, "", "")}})
		page.WaitText(feedRows, subject)
	}
	hear("user:eve")
	other := page.Tab()
	page.Wait("document.hidden")
	page.Show() // soon enough to keep its stream
	hear("user:bob")
	if open, begun := f.listeners(); open != 1 || begun != 1 {
		t.Errorf("%d streams of %d, want the first one", open, begun)
	}
	other.Show()
	testkit.Eventually(t, "the page no longer listens", func() bool { open, _ := f.listeners(); return open == 0 })
	f.change(func() { f.state.Violations = []observe.Violation{denial("user:dan", "", "")} })
	page.Show()
	page.WaitText(feedRows, "user:dan")
	page.WaitText(".counts", "are missing: this page was not connected")
	page.WaitText("#link", "Live")
	testkit.Eventually(t, "the page listens again",
		func() bool { open, begun := f.listeners(); return open == 1 && begun == 2 })
	hear("user:fay")
	if got := page.Count(feedRows); got != 2 {
		t.Errorf("%d rows, want those of the new state and of the tick after it", got)
	}
	if page.Count("#banner:not([hidden]), body.lost") > 0 {
		t.Error("a page that was hidden says that its connection was lost")
	}
}

// testLeft: a page that is left for another one closes its stream, although the browser keeps the
// page, and connects again when the user goes back.
func testLeft(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "violations")
	page.Open("about:blank")
	testkit.Eventually(t, "the page lets go", func() bool { open, _ := f.listeners(); return open == 0 })
	browsertest.Eval[bool](page, "(setTimeout(() => history.back()), true)")
	testkit.Eventually(t, "the page listens again", func() bool { open, _ := f.listeners(); return open == 1 })
	page.WaitText("#link", "Live")
}

// testModel: what the page concludes from its data. A quiet minute has 1,000 decisions.
func testModel(t *testing.T, f *fixture, page *browsertest.Page) {
	page.Open(f.URL)
	causes := []struct {
		name, state string
		kind, text  string
	}{
		{"quiet", `0, [], []`, "quiet", "No subject was limited"},
		{"few", `5, [5], [5]`, "quiet", "The limits work as intended"},
		{"nothing known yet", `500, [], []`, "quiet", "not known yet"},
		{"one abuser", `500, [450, 20, 10], [480]`, "abuse", "1 subject makes up 93.8% of the recent denials"},
		{"two abusers", `500, [200, 180, 20], [480]`, "abuse", "2 subjects make up"},
		{"a tight policy", `500, [9, 9, 9, 9], [450, 30]`, "policy", "93.8% of them come from one rule, "},
		{"everywhere", `500, [9, 9, 9, 9], [200, 150, 150]`, "spread", "no single one explains them"},
	}
	for _, test := range causes {
		got := browsertest.Eval[[]string](page, `Promise.all([import("./static/model.js"), import("./static/verdict.js")]).then(([{ Model }, { cause }]) => {
			const model = new Model();
			const list = (kind, denied) => denied.map((n, i) => ({ kind, subject: kind + ":" + i, ref: String(i), denied: n, at_least: n }));
			const load = (denied, users, policies) => model.load({ now: new Date().toISOString(), top: { user: list("user", users), policy: list("policy", policies) },
				points: [{ at: Math.floor(Date.now() / 1000), allowed: 1000, denied, degraded: 0, failed: 0, shadowed: 0 }] });
			load(`+test.state+`);
			const found = cause(model);
			return [found.kind, found.text.replaceAll("\u00a0", " ")];
		})`)
		if got[0] != test.kind || !strings.Contains(got[1], test.text) {
			t.Errorf("%s: got %q, want %s: %s", test.name, got, test.kind, test.text)
		}
	}

	// The feed says what it cannot know. Times are in minutes.
	tests := []struct {
		name string
		run  string // what happens to the model
		want string
	}{
		{"a new page", `load(10, [7, 9])`, "null"},
		{"as before", `load(10, [7, 9]); load(11, [7, 9])`, "null"},
		{"nothing before, and little since", `load(10, []); load(20, [])`, "null"},
		{"all of it", `load(10, [7, 9]); tick(11); load(20, [9, 15])`, "null"},
		{"the end of it", `load(10, [7, 9]); tick(11); load(20, [15, 16])`, "11 to 15"},
		{"that is over", `load(10, [9]); load(20, [15]); tick(21); load(30, [21, 22])`, "null"},
		{"twice", `load(10, [9]); load(20, [15]); tick(21); load(30, [25])`, "21 to 25"},
		{"connected again at once", `load(10, [9]); load(20, [15, 16]); load(20, [16])`, "10 to 16"},
		{"pushed out", `load(10, [9]); load(20, [15]); for (let i = 0; i < 1000; i++) tick(21, [21])`, "null"},
	}
	for _, test := range tests {
		got := browsertest.Eval[string](page, `import("./static/model.js").then(({ Model }) => {
			const model = new Model();
			const list = (minutes) => minutes.map((m) => ({ at: new Date(m * 60_000).toISOString() }));
			const load = (now, violations) => model.load({ now: list([now])[0].at, points: [{ at: now * 60 }], violations: list(violations) });
			const tick = (now, violations = []) => model.tick({ point: { at: now * 60 }, violations: list(violations) });
			`+test.run+`;
			return model.gap ? model.gap.from / 60_000 + " to " + model.gap.to / 60_000 : "null";
		})`)
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}
