package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestF33OtherHost: a page whose name leads to this machine, but is another's, is told nothing, and
// neither is one of another site that calls this one.
func TestF33OtherHost(t *testing.T) {
	r := start(t, five)
	r.use("mallory", 6)
	page := browsertest.Start(t).Page(t, 1280, 900)
	page.Expect("403")
	page.Expect("CORS")
	page.Expect("net::ERR_FAILED")
	other := testkit.Must(url.Parse(r.admin))(t)
	other.Host = "evil.localhost:" + other.Port() // browsers take all of localhost for this machine
	page.Open(other.String() + "/#/violations")
	page.WaitText("#banner", "this listener serves only this machine")
	if got := page.Text("body"); strings.Contains(got, "mallo") {
		t.Errorf("the page says %q", got)
	}

	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><title>other</title><link rel="icon" href="data:,">`) // to a browser that waits for it
	}))
	t.Cleanup(site.Close)
	page.Open(site.URL)
	got := browsertest.Eval[string](page, "fetch("+browsertest.Quote(r.admin+"/api/violations")+
		").then((a) => a.text(), () => 'refused')")
	if got != "refused" {
		t.Errorf("another site gets %s", got)
	}
	r.open(page, "violations")
	page.WaitText("section.violations tbody tr", "user:mallo")
}
