package browsertest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

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
	lock := testkit.Must(os.ReadFile("../../tools/axe/package-lock.json"))(t)
	if strings.Contains(string(lock), "://") || !strings.Contains(string(lock), `"integrity": "sha512-`) {
		t.Errorf("want hashes and no addresses in\n%s", lock)
	}
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
