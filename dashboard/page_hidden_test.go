package dashboard_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
)

// testHidden: a page that nobody looks at does not listen for long, and begins anew when somebody
// does. That is no error.
func testHidden(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "violations")
	hear := func(subject string) {
		t.Helper()
		f.tick(observe.Tick{Point: counted(1, 1), Violations: []observe.Violation{denial(subject, "", "")}})
		page.WaitText(feedRows, subject)
	}
	hear("user:eve")
	browsertest.Eval[bool](page, `(window.alarmed = 0, new MutationObserver((list) => (window.alarmed += list.length))
		.observe(document.querySelector("#banner"), {attributes: true, childList: true}), true)`)

	// Somebody goes through the tabs.
	other := page.Tab()
	page.Wait("document.hidden")
	page.Show()
	hear("user:bob")
	if open, begun := f.listeners(); open != 1 || begun != 1 {
		t.Errorf("%d streams of %d, want the first one", open, begun)
	}

	// Somebody is away for longer.
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
	// What was not hidden at the first connection is hidden at every other: that is the one change.
	if got := browsertest.Eval[int](page, "window.alarmed"); got > 1 ||
		page.Count("#banner:not([hidden]), body.lost") > 0 {
		t.Errorf("an alarm: %d changes of the banner", got)
	}
}

// testHiddenFailure: that a page was hidden is no reason to ask again after an answer. Somebody who
// went to look for a token, and came back without, is not asked for it twice.
func testHiddenFailure(t *testing.T, f *fixture, page *browsertest.Page) {
	page.Open(f.URL)
	for thrown, want := range map[string]string{
		`new Refused(401, "unauthorized", "A token is required")`: "A token is required",
		`left.reason`: "true",
	} {
		got := browsertest.Eval[string](page, `Promise.all([import("./static/attention.js"), import("./static/api.js")]).then(async ([{ whileShown }, { Refused }]) => {
			const wait = window.setTimeout;
			window.setTimeout = (f) => void f();
			Object.defineProperty(document, "hidden", { value: true, configurable: true });
			try {
				return String(await whileShown(async (left) => { throw `+thrown+`; }));
			} catch (error) {
				return error.message;
			} finally {
				window.setTimeout = wait;
				delete document.hidden;
			}
		})`)
		if got != want {
			t.Errorf("thrown %s: got %q, want %q", thrown, got, want)
		}
	}
}

// testLeft: a page that is left for another releases its connection at once, though the browser
// keeps the page, and connects again when somebody goes back.
func testLeft(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "violations")
	page.Open("about:blank")
	testkit.Eventually(t, "the page lets go", func() bool { open, _ := f.listeners(); return open == 0 })
	browsertest.Eval[bool](page, "(setTimeout(() => history.back()), true)")
	testkit.Eventually(t, "the page listens again", func() bool { open, _ := f.listeners(); return open == 1 })
	page.WaitText("#link", "Live")
	f.tick(observe.Tick{Violations: []observe.Violation{denial("user:gus", "", "")}})
	page.WaitText(feedRows, "user:gus")
}

// testStreamEnds: a stream that ended because of what came holds no connection.
func testStreamEnds(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "overview")
	browsertest.Eval[bool](page, `(import("./static/api.js").then(({ API }) => new API()
		.stream(() => {}, () => { throw new Error("odd"); }, new AbortController().signal)).catch((error) => (window.why = error.message)), true)`)
	testkit.Eventually(t, "there are two streams", func() bool { open, _ := f.listeners(); return open == 2 })
	f.tick(observe.Tick{Point: counted(1, 1)})
	page.Wait(`window.why === "odd"`)
	testkit.Eventually(t, "only that of the page is left", func() bool {
		time.Sleep(100 * time.Millisecond)
		f.tick(observe.Tick{Point: counted(1, 1)}) // of a server that is silent, the page lets go
		open, begun := f.listeners()
		return open == 1 && begun == 2
	})
}

// testStateSilent: a page that waits for the state gives up with the signal, and tries again later.
func testStateSilent(t *testing.T, f *fixture, page *browsertest.Page) {
	open(t, f, page, "overview")
	silent := make(chan struct{})
	defer close(silent)
	f.change(func() { f.loading = func() { <-silent } })
	got := browsertest.Eval[string](page, `import("./static/api.js").then(({ API }) => {
		const api = new API();
		return api.stream((signal) => api.get("api/state", signal), () => {}, AbortSignal.timeout(200));
	}).catch((error) => error.name)`)
	if got != "TimeoutError" {
		t.Errorf("got %s, want what the signal says", got)
	}
}

// testTabs: a browser has six connections to a server, and each of eight tabs is live when it is
// looked at.
func testTabs(t *testing.T, f *fixture, page *browsertest.Page) {
	var beats atomic.Int64
	stop := make(chan struct{})
	var work sync.WaitGroup
	t.Cleanup(func() { close(stop); work.Wait() })
	work.Go(func() { // as a server does: of one that is silent, pages let go
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
				f.tick(observe.Tick{Violations: []observe.Violation{
					denial(fmt.Sprintf("user:%d;", beats.Add(1)), "", "")}})
			}
		}
	})
	live := func(tab *browsertest.Page) {
		t.Helper()
		tab.Wait(fmt.Sprintf(`document.querySelector("%s")?.textContent.match(/user:(\d+);/)[1] > %d`, feedRows, beats.Load()))
	}
	tabs := []*browsertest.Page{page}
	for len(tabs) < 8 {
		tabs = append(tabs, page.Tab())
	}
	for _, tab := range tabs {
		tab.Show()
		tab.Open(f.URL + "/#/violations")
		live(tab)
	}
	for _, tab := range []*browsertest.Page{tabs[0], tabs[7], tabs[3]} {
		tab.Show()
		live(tab)
	}
}

// testGap: the feed says what it cannot know. Times are in minutes.
func testGap(t *testing.T, f *fixture, page *browsertest.Page) {
	page.Open(f.URL)
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
