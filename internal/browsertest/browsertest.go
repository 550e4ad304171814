// Package browsertest drives a real Chromium without a window, for tests of pages. With -short,
// such tests are skipped.
//
//	func TestPage(t *testing.T) {
//		browser := browsertest.Start(t)
//		page := browser.Page(t, 1280, 800)
//		page.Open(url)
//		page.Click("#save")
//		page.Wait(`document.title === "Saved"`)
//	}
//
// Without -short, no test is skipped: a missing Chromium fails the test. At the end of a test, each
// unexpected problem that the browser has reported fails the test: errors in the console, failed
// requests, and violations of the content security policy.
package browsertest

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const (
	// BinaryEnv names the environment variable that holds the path of a Chromium-based browser to
	// use instead of the default one.
	BinaryEnv = "STINT_CHROMIUM"

	// startTimeout is the maximum time to wait for a browser to start. It is long because a test
	// machine may be busy.
	startTimeout = time.Minute
)

// Browser is one Chromium process.
type Browser struct {
	ctx context.Context
}

// shared is the browser that all tests use under [Main].
var shared struct {
	mu      sync.Mutex
	on      bool
	browser *Browser // nil before the first test that needs it
	stop    func()
}

// Main runs the tests of a package with one browser process that all of them share, because
// starting a browser takes a second. Call it in TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(browsertest.Main(m)) }
func Main(m *testing.M) (code int) {
	shared.on = true
	defer func() {
		if shared.stop != nil {
			shared.stop()
		}
	}()
	return m.Run()
}

// Start runs a browser with its own profile, and stops it when the test ends. Under [Main], it
// returns the browser that all tests share.
func Start(t testing.TB) *Browser {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a browser: make test runs it")
	}
	if !shared.on {
		b, stop := start(t)
		t.Cleanup(stop)
		return b
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if b := shared.browser; b != nil && b.ctx.Err() == nil {
		return b
	}
	if shared.stop != nil { // the browser has ended unexpectedly
		shared.stop()
	}
	shared.browser, shared.stop = start(t)
	return shared.browser
}

// start runs a browser. It tries up to three times, because on a busy machine a browser
// occasionally crashes when it starts.
func start(t testing.TB) (b *Browser, stop func()) {
	t.Helper()
	path, err := exec.LookPath(cmp.Or(os.Getenv(BinaryEnv), "chromium"))
	if err != nil {
		t.Fatalf("browsertest: Chromium is needed for this test, as Debian's package chromium, or name it in %s: %v",
			BinaryEnv, err)
	}
	for range 3 {
		if b, stop, err = launch(path); err == nil {
			return b, stop
		}
		stop()
	}
	t.Fatalf("browsertest: %s does not start: %v", path, err)
	return nil, nil
}

func launch(path string) (*Browser, func(), error) {
	ctx, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path),
		chromedp.Headless,
		chromedp.NoSandbox, // tests run as root in containers, and only open their own pages
		chromedp.DisableGPU,
		chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.WSURLReadTimeout(startTimeout),
	)
	ctx, cancel := chromedp.NewContext(ctx)
	end := func() {
		cancel()
		stop()
	}
	return &Browser{ctx: ctx}, end, chromedp.Do(ctx)
}

// Page opens an empty tab with the given size in pixels. The tab shares nothing with existing tabs:
// it has its own cookies, storage and window. Only tabs that [Page.Tab] opens in that window can
// hide it.
func (b *Browser) Page(t testing.TB, width, height int) *Page {
	t.Helper()
	p := newPage(t, b.ctx, chromedp.WithNewBrowserContext())
	p.ResizeDense(width, height, 1)
	return p
}

// newPage opens a tab, which is closed when the test ends.
func newPage(t testing.TB, parent context.Context, options ...chromedp.ContextOption) *Page {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, options...)
	p := &Page{t: t, ctx: ctx, done: make(chan struct{})}
	if err := chromedp.Do(ctx); err != nil {
		cancel()
		t.Fatalf("browsertest: no new page: %v", err)
	}
	messages := chromedp.Console(ctx)
	go func() {
		defer close(p.done)
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == chromedp.ConsoleError || m.IsException() {
				p.mu.Lock()
				p.problems = append(p.problems, m.String()+" ("+m.URL+")")
				p.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-p.done
		for _, problem := range p.Problems() {
			t.Errorf("browsertest: the browser complains: %s", problem)
		}
	})
	return p
}
