package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPage(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" { // an icon that browsers look for
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		_, _ = w.Write([]byte(`<!doctype html><title>t</title><input><button>Press</button><p>one</p><p>two</p>`))
	}))
	defer server.Close()
	browser := Start(t)
	page := browser.Page(t, 640, 480)
	page.Open(server.URL)

	Eval[bool](page, `document.querySelector("button").addEventListener("click", (e) => (e.target.textContent = "Pressed")) ?? true`)
	page.Click("button")
	page.WaitText("button", "Pressed")
	page.Type("input", "a")
	Eval[bool](page, `document.querySelector("input").addEventListener("keydown", (e) => e.key === "x" && e.preventDefault()) ?? true`)
	page.Press("xb")
	if got, want := Eval[string](page, `document.querySelector("input").value`), "ab"; got != want {
		t.Errorf("typed %q, want %q: a prevented key leaves no character", got, want)
	}
	if got := page.Count("p"); got != 2 {
		t.Errorf("%d paragraphs, want 2", got)
	}
	if got, want := page.Text("p"), "one"; got != want {
		t.Errorf("the first says %q, want %q", got, want)
	}
	page.Resize(300, 200)
	page.Wait("innerWidth === 300")
	page.Prefer("prefers-color-scheme", "dark")
	page.Wait(`matchMedia("(prefers-color-scheme: dark)").matches`)
	if got := Eval[int](page, "Promise.resolve(7)"); got != 7 {
		t.Errorf("got %d of a promise, want 7", got)
	}

	file := filepath.Join(t.TempDir(), "shots", "page.png")
	page.Screenshot(file, true)
	shot, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(shot), "\x89PNG") {
		t.Errorf("no picture: %v", err)
	}
	if got := page.Problems(); len(got) != 0 {
		t.Errorf("complaints: %q", got)
	}
}

// TestAudit: axe-core runs in a page whose policy allows no other script, and finds what is wrong.
func TestAudit(t *testing.T) {
	page := Start(t).Page(t, 640, 480)
	page.Open(`data:text/html,<!doctype html><html lang=en><meta http-equiv=content-security-policy content="script-src 'none'">` +
		`<title>t</title><main><h1>t</h1><img src="data:,"><p style="color:%23999">pale</p></main></html>`)
	for _, test := range []struct {
		rules, want []string
	}{{nil, []string{"color-contrast: p:", "image-alt: img:"}}, {[]string{"image-alt"}, []string{"image-alt: img:"}}} {
		got := page.Audit(test.rules...)
		if len(got) != len(test.want) {
			t.Errorf("%q: got %q, want %q", test.rules, got, test.want)
			continue
		}
		for i, want := range test.want {
			if !strings.HasPrefix(got[i], want) {
				t.Errorf("%q: got %q, want %q", test.rules, got[i], want)
			}
		}
	}
}

// TestAxeLock: axe-core has one version, and comes from whatever registry npm is set to.
func TestAxeLock(t *testing.T) {
	lock, err := os.ReadFile("../../tools/axe/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(lock), "://") || !strings.Contains(string(lock), `"integrity": "sha512-`) {
		t.Errorf("want hashes and no addresses in\n%s", lock)
	}
}

// TestTabs: of the tabs of a window, one is seen. They share what pages of their own do not.
func TestTabs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><title>t</title><link rel="icon" href="data:,">`))
	}))
	defer server.Close()
	browser := Start(t)
	first, other := browser.Page(t, 640, 480), browser.Page(t, 640, 480)
	second := first.Tab()
	for _, page := range []*Page{first, second, other} {
		page.Open(server.URL)
	}
	Eval[bool](first, `(localStorage.setItem("kept", "yes"), true)`)
	const kept = `localStorage.getItem("kept") ?? "no"`
	if here, there := Eval[string](second, kept), Eval[string](other, kept); here != "yes" || there != "no" {
		t.Errorf("a tab of the same window gets %s, and one of another %s; want yes and no", here, there)
	}
	seen := func(want ...bool) {
		t.Helper()
		for i, page := range []*Page{first, second, other} {
			page.Wait(fmt.Sprintf(`document.hidden === %t`, !want[i]))
		}
	}
	seen(false, true, true)
	first.Show()
	seen(true, false, true)
}

// TestComplaints: what goes wrong in a page is known, unless the test expects it.
func TestComplaints(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	page := Start(t).Page(t, 640, 480)
	page.Expect("") // all, so that this test does not fail by them
	page.Open("data:text/html,<meta http-equiv=content-security-policy content=\"script-src 'none'\"><script>1</script>")
	page.Open(server.URL)
	Eval[bool](page, `(console.error("said"), setTimeout(() => { throw new Error("thrown") }), fetch("/missing"), true)`)
	for _, want := range []string{"script-src", "said", "thrown", "404"} {
		if !complained(page, want) {
			t.Errorf("nobody complains of %q", want)
		}
	}
}

// complained waits for a complaint, which comes a little after what it is about.
func complained(page *Page, text string) bool {
	for range 200 {
		page.mu.Lock()
		all := strings.Join(page.problems, "\n")
		page.mu.Unlock()
		if strings.Contains(all, text) {
			return true
		}
		Eval[bool](page, "new Promise((resolve) => setTimeout(() => resolve(true), 20))")
	}
	return false
}
