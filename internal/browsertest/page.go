package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	// waitTimeout is the maximum time that a test waits for a page to change. It is long because a
	// test machine may be busy.
	waitTimeout = time.Minute
	pollPause   = 25 * time.Millisecond
)

// Page is a tab. Its methods fail the test when an action fails, so call them only from the test's
// own goroutine. CSS selectors identify elements.
type Page struct {
	t    testing.TB
	ctx  context.Context
	done chan struct{} // closed when the console is no longer read

	mu       sync.Mutex
	problems []string
	expected []string

	preferred []*emulation.MediaFeature
}

// Open loads an address, and returns when the page has loaded.
func (p *Page) Open(url string) {
	p.t.Helper()
	p.do("open "+url, chromedp.Navigate(url))
}

// Tab opens an empty tab in the same window as p. The two tabs share cookies, storage and
// connections. The new tab is in front. All other tabs in the window, including p, are hidden until
// they are shown again.
func (p *Page) Tab() *Page {
	p.t.Helper()
	return newPage(p.t, p.ctx, chromedp.WithNewWindow(false))
}

// Show brings the tab to the front of its window and hides the other tabs in it.
func (p *Page) Show() {
	p.t.Helper()
	call(p, "show the tab", page.BringToFront, cdp.Empty{})
}

// Expect marks browser errors that contain the given text, such as "401", as expected.
func (p *Page) Expect(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, text)
}

// Problems returns the browser's errors so far, except the expected ones.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.problems), func(problem string) bool {
		return slices.ContainsFunc(p.expected, func(text string) bool { return strings.Contains(problem, text) })
	})
}

// Click clicks an element. If the page moves or replaces the element before the click reaches it,
// Click clicks again.
func (p *Page) Click(selector string) {
	p.t.Helper()
	watch := `(() => {
		window.missed = true;
		const hit = (event) => { if (event.target.closest(` + Quote(selector) + `)) window.missed = false; };
		addEventListener("click", hit, { capture: true, once: true });
		return true;
	})()`
	deadline := time.Now().Add(waitTimeout)
	for Eval[bool](p, watch) {
		p.do("click "+selector, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
		if !Eval[bool](p, "window.missed === true") { // missed is undefined if the click has opened another page
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("browsertest: no click reaches %s", selector)
		}
	}
}

// Type moves the focus to an element and types text.
func (p *Page) Type(selector, text string) {
	p.t.Helper()
	p.do("type into "+selector, chromedp.SendKeys(chromedp.CSS(selector), text, chromedp.NodeVisible))
}

// Press presses keys, which go to the element with the focus. Keys without a character are in
// package chromedp/kb. If the page prevents the default action of a key, no character is typed, as
// with a real keyboard. chromedp's own function would type it.
func (p *Page) Press(keys string) {
	p.t.Helper()
	for _, key := range keys {
		events := kb.Encode(key)
		down, up := *events[0], *events[len(events)-1]
		if len(events) == 3 { // down, character, up
			down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
		}
		for _, event := range []input.DispatchKeyEventParams{down, up} {
			call(p, "press a key", input.DispatchKeyEvent, event)
		}
	}
}

// ResizeDense changes the size of the page in CSS pixels, and sets the number of device pixels per
// CSS pixel to density.
func (p *Page) ResizeDense(width, height int, density float64) {
	p.t.Helper()
	p.do("resize", chromedp.EmulateViewport(int64(width), int64(height), chromedp.EmulateScale(density)))
}

// Prefer sets a media feature of the page, such as "prefers-color-scheme" to "dark". Features that
// were set before stay set.
func (p *Page) Prefer(feature, value string) {
	p.t.Helper()
	p.preferred = slices.DeleteFunc(p.preferred, func(f *emulation.MediaFeature) bool { return f.Name == feature })
	p.preferred = append(p.preferred, &emulation.MediaFeature{Name: feature, Value: value})
	call(p, "prefer "+feature, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: p.preferred})
}

// Wait waits until a JavaScript expression is true.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	deadline := time.Now().Add(waitTimeout)
	for !Eval[bool](p, "Boolean("+expression+")") {
		if time.Now().After(deadline) {
			p.t.Fatalf("browsertest: still not so: %s\nThe page says:\n%s", expression,
				Eval[string](p, "document.body.innerText.slice(0, 1500)"))
		}
		time.Sleep(pollPause)
	}
}

// WaitText waits until an element contains the given text.
func (p *Page) WaitText(selector, text string) {
	p.t.Helper()
	p.Wait("document.querySelector(" + Quote(selector) + ")?.textContent.includes(" + Quote(text) + ")")
}

// Text returns the text of an element in the document.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	return Eval[string](p, "document.querySelector("+Quote(selector)+")?.textContent ?? ''")
}

// Count returns the number of elements that match a selector.
func (p *Page) Count(selector string) int {
	p.t.Helper()
	return Eval[int](p, "document.querySelectorAll("+Quote(selector)+").length")
}

// Screenshot writes the page to a PNG file: the whole page if `all` is true, and otherwise its
// visible part.
func (p *Page) Screenshot(file string, all bool) {
	p.t.Helper()
	shot := call(p, "take a screenshot", page.CaptureScreenshot,
		page.CaptureScreenshotParams{CaptureBeyondViewport: &all})
	p.must(os.MkdirAll(filepath.Dir(file), 0o755), "make a directory")
	p.must(os.WriteFile(file, shot.Data, 0o644), "write a screenshot")
}

// Eval returns the value of a JavaScript expression. If that is a promise, Eval waits for it and
// returns its result.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, waitTimeout)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	p.must(err, "evaluate "+expression)
	return value
}

// Quote formats text as a JavaScript string.
func Quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		return `""` // cannot happen: strings can always be marshaled
	}
	return string(b)
}

// call sends a DevTools protocol command and returns its result.
func call[P, R any](p *Page, what string, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, waitTimeout)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	p.must(err, what)
	return result
}

func (p *Page) do(what string, step chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, waitTimeout)
	defer cancel()
	p.must(chromedp.Do(ctx, step), what)
}

func (p *Page) must(err error, what string) {
	p.t.Helper()
	if errors.Is(err, context.DeadlineExceeded) {
		p.t.Fatalf("browsertest: cannot %s within %v", what, waitTimeout)
	}
	if err != nil {
		p.t.Fatalf("browsertest: cannot %s: %v", what, err)
	}
}
