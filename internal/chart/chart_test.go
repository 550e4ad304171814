package chart_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/chart"
)

// report is a file that carries the charts inside itself, as the simulator's does.
func report(t *testing.T, browser *browsertest.Browser) *browsertest.Page {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	html := "<!doctype html><meta charset=utf-8><title>Report</title><style>" + chart.Style + "</style><body><script type=module>\n" + chart.Script +
		"\nObject.assign(window, {number, duration, ticks, timeTicks, areaChart, lineChart, sparkline, bar, windowLine, figure});\n</script>"
	if err := os.WriteFile(file, []byte(html), 0o600); err != nil {
		t.Fatal(err)
	}
	page := browser.Page(t, 800, 600)
	page.Open("file://" + file)
	page.Wait("window.figure")
	return page
}

func TestReport(t *testing.T) {
	browser := browsertest.Start(t)
	t.Run("words", func(t *testing.T) { testWords(t, report(t, browser)) })
	t.Run("drawings", func(t *testing.T) { testDrawings(t, report(t, browser)) })
	t.Run("hostile", func(t *testing.T) { testHostile(t, report(t, browser)) })
	t.Run("read out", func(t *testing.T) { testReadOut(t, report(t, browser)) })
}

func testWords(t *testing.T, page *browsertest.Page) {
	tests := []struct{ call, want string }{
		{`number(0, "/s")`, "0/s"},
		{`number(9999, "/s")`, "9999/s"},
		{`number(12345, "/s")`, "12.3 k/s"},
		{`number(2500000)`, "2.5 M"},
		{`number(0.1234, "share")`, "12.3%"},
		{`number(0.034, "ms")`, "34 µs"},
		{`number(12.5, "ms")`, "12.5 ms"},
		{`number(1234, "ms")`, "1.23 s"},
		{`number(1536, "B")`, "1.5 KiB"},
		{`number(null, "/s")`, "–"},
		{`duration(850)`, "850 ms"},
		{`duration(12500)`, "12.5 s"},
		{`duration(200000)`, "3 m 20 s"},
		{`duration(3600000)`, "1 h"},
		{`duration(129600000)`, "1 d 12 h"},
		{`ticks(0).join(" ")`, "0 1"},
		{`ticks(7).join(" ")`, "0 2 4 6 8"},
		{`ticks(1234, 5).join(" ")`, "0 200 400 600 800 1000 1200 1400"},
		{`ticks(0.3, 3).join(" ")`, "0 0.1 0.2 0.3"},
		{`String(timeTicks(0, 300000, 5).length)`, "6"},
		{`String(timeTicks(1000, 7200000, 4)[1] - timeTicks(1000, 7200000, 4)[0])`, "1800000"},
	}
	for _, test := range tests {
		if got := browsertest.Eval[string](page, test.call); got != test.want {
			t.Errorf("%s: got %q, want %q", test.call, got, test.want)
		}
	}
}

func testDrawings(t *testing.T, page *browsertest.Page) {
	const axes = `label: "L", width: 400, height: 150, times: [0, 1000, 2000, 3000], unit: "/s",`
	tests := []struct{ name, drawing, selector, want string }{
		{"stacked", `areaChart(document, {` + axes + `series: [{kind: "allowed", values: [1, 2, 3, 4]}, {kind: "denied", values: [0, 0, 1, 1]}]})`, "path.area", "2"},
		{"what did not happen", `areaChart(document, {` + axes + `series: [{kind: "allowed", values: [1, 2, 3, 4]}, {kind: "failed", values: [0, 0, 0, 0]}]})`, ".failed", "0"},
		{"hatched", `areaChart(document, {` + axes + `series: [{kind: "allowed", values: [1, 2, 3, 4]}, {kind: "degraded", over: true, values: [0, 1, 0, 1]}]})`, "path.hatched", "2"},
		{"a gap", `lineChart(document, {` + axes + `series: [{kind: "allowed", values: [1, null, 3, 4]}]})`, "path.line", "2"},
		{"a rare one", `lineChart(document, {` + axes + `series: [{kind: "failed", rare: true, values: [0, 0, 0, 0]}]})`, "path.line", "0"},
		{"a level", `lineChart(document, {` + axes + `max: 5, marks: [{name: "high", value: 4}, {name: "too high", value: 40}], series: []})`, "line.level", "1"},
		{"a cursor", `lineChart(document, {` + axes + `cursor: 2, series: [{kind: "allowed", values: [1, 2, 3, 4]}]})`, ".cursor, .dot", "2"},
		{"nothing yet", `areaChart(document, {label: "L", width: 400, height: 150, times: [], series: [{kind: "allowed", values: []}]})`, "path", "0"},
		{"a spark", `sparkline(document, {width: 100, height: 30, series: [{kind: "allowed", values: [1, 2, 3]}]})`, "path.area", "1"},
		{"a bar", `bar(document, {share: 0.5, sure: 0.25, kind: "denied"})`, `rect.fill[width="25"], rect.maybe[width="50"]`, "2"},
		{"more than all", `bar(document, {share: 7, kind: "denied"})`, `rect.fill[width="100"]`, "1"},
		{"a window", `windowLine(document, {width: 400, now: 60000, window: 60000, used: 3, capacity: 3, resetAfter: 50000, entries: [{at: 10000, until: 70000, units: 1}, {at: 50000, until: 110000, units: 2}]})`, "line.mark", "2"},
		{"a booking", `windowLine(document, {width: 400, now: 60000, window: 60000, used: 1, capacity: 3, resetAfter: 70000, entries: [{at: 70000, until: 130000, units: 1}]})`, "line.booked", "1"},
		{"places held", `windowLine(document, {width: 400, now: 60000, window: 60000, used: 1, capacity: 3, resetAfter: 50000, entries: [{at: null, until: 70000, units: 1}]})`, "line.mark", "0"},
	}
	for _, test := range tests {
		got := browsertest.Eval[string](page, `((svg) => String(svg.querySelectorAll(`+browsertest.Quote(test.selector)+
			`).length))(`+test.drawing+`)`)
		if got != test.want {
			t.Errorf("%s: %s of %s, want %s", test.name, got, test.selector, test.want)
		}
		if bad := browsertest.Eval[bool](page, `/NaN|undefined|Infinity/.test(`+test.drawing+`.outerHTML)`); bad {
			t.Errorf("%s: has something that is no number", test.name)
		}
	}
	notes := []struct{ used, entries, want string }{
		{"2", `[{at: 0, until: 60000, units: 2}]`, "room for 1 now"},
		{"3", `[{at: 0, until: 72000, units: 1}, {at: 0, until: 90000, units: 2}]`, "room again in 12 s"},
		{"3", `null`, "room again in 30 s"},
	}
	for _, test := range notes {
		got := browsertest.Eval[string](page, `windowLine(document, {width: 400, now: 60000, window: 60000, used: `+test.used+
			`, capacity: 3, resetAfter: 30000, entries: `+test.entries+`}).textContent`)
		if !strings.Contains(got, test.want) {
			t.Errorf("%s used of 3: %q, want %q", test.used, got, test.want)
		}
	}
}

func testHostile(t *testing.T, page *browsertest.Page) {
	got := browsertest.Eval[string](page, `lineChart(document, {label: "L", width: 300, height: 150, times: [], max: 5, series: [],
		marks: [{name: "<img src=x onerror=alert(1)>", value: 4}]}).outerHTML`)
	if strings.Contains(got, "<img") || !strings.Contains(got, "onerror") {
		t.Errorf("a name became markup: %s", got)
	}
}

func testReadOut(t *testing.T, page *browsertest.Page) {
	browsertest.Eval[bool](page, `(() => {
		const chart = figure(document, areaChart, "Requests");
		document.body.append(chart.node);
		const day = new Date(2024, 1, 3, 10, 0, 0).getTime();
		chart.show({height: 150, unit: "/s", times: [day, day + 1000, day + 2000], series: [{name: "allowed", kind: "allowed", values: [5, 6, 7]}]});
		chart.node.querySelector(".stage").focus();
		return true;
	})()`)
	page.WaitText(".legend", "7/s")
	for _, key := range []struct{ name, want string }{{"ArrowLeft", "10:00:01: allowed 6/s"},
		{"Home", "10:00:00: allowed 5/s"}, {"ArrowRight", "10:00:01: allowed 6/s"}, {"End", "10:00:02: allowed 7/s"}} {
		browsertest.Eval[bool](page, `document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "`+key.name+`"}))`)
		page.Wait(`document.querySelector(".stage").getAttribute("aria-valuetext") === ` + browsertest.Quote(key.want))
	}
	page.Wait(`document.querySelector(".stage .cursor")`)
	browsertest.Eval[bool](page, `document.activeElement.blur() ?? true`)
	page.Wait(`!document.querySelector(".stage .cursor")`)
}
