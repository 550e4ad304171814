// Package e2e has no code: its tests drive a whole server. Those in a browser check that the
// dashboard shows what was decided over HTTP, and that its actions take effect. Package dashboard
// tests the page itself. The others show one promise of the documentation each, from outside:
// through the program or an address.
package e2e

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

const (
	anywhere = "127.0.0.1:0"
	operator = "token-of-an-operator"
	reader   = "token-of-a-scraper"

	// five is little for every user, bans that are made by hand are obeyed.
	five = "tiers:\n  - {name: all, identity: [user, ip], limits: 5/1h}\nbans: {after: 0}\n"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Main(m)) }

// rig is a server under test, which ends with it.
type rig struct {
	t          *testing.T
	api, admin string // URLs
	log        testkit.Buffer
}

// start runs a server with policies until the test ends.
func start(t *testing.T, policies string, adjust ...func(*server.Config)) *rig {
	t.Helper()
	r := &rig{t: t}
	c := server.Config{
		Policies: testkit.TempFile(t, "stint.yaml", policies), HTTP: anywhere, Admin: anywhere,
		Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
	}
	for _, f := range adjust {
		f(&c)
	}
	s := testkit.Must(server.New(c))(t)
	if err := s.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Errorf("Stop: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", r.log.String())
		}
	})
	r.api, r.admin = "http://"+s.Addr(server.HTTP).String(), "http://"+s.Addr(server.Admin).String()
	return r
}

// sharing has servers use one store.
func sharing(url string) func(*server.Config) { return func(c *server.Config) { c.Store = url } }

// withToken has alice as the operator, and a scraper that may look.
func withToken(t *testing.T) func(*server.Config) {
	return func(c *server.Config) {
		c.AdminTokens = testkit.TempFile(t, "tokens", "alice: "+operator+"\nprometheus (read): "+reader+"\n")
	}
}

// signIn shows a view after giving a token.
func (r *rig) signIn(page *browsertest.Page, view, token string) {
	r.t.Helper()
	page.Expect("401")
	page.Open(r.admin + "/#/" + view)
	page.Wait("document.querySelector('#token').open")
	page.Press(token + kb.Enter)
	page.WaitText("#link", "Live")
}

// client returns a client of the admin listener.
func (r *rig) client(token string) *control.Client {
	r.t.Helper()
	return testkit.Must(control.NewClient(r.admin, token))(r.t)
}

// open shows a view, and waits until it is live.
func (r *rig) open(page *browsertest.Page, view string) {
	r.t.Helper()
	page.Open(r.admin + "/#/" + view)
	page.WaitText("#link", "Live")
}

// take makes a request of a user over HTTP, and reports whether it was allowed.
func (r *rig) take(user string) bool {
	r.t.Helper()
	return r.post("/v1/take", question(user)) == http.StatusOK
}

// use makes so many requests of a user.
func (r *rig) use(user string, times int) {
	r.t.Helper()
	for range times {
		r.take(user)
	}
}

// post returns the status of a POST to the API.
func (r *rig) post(path string, body any) int { return r.call(path, body).status }

// answered is what the API answers to a decision or an amendment.
type answered struct {
	status  int
	Allowed bool
	Charge  string
	Changed bool
	Charged int64
	Limits  []struct{ Used, Remaining int64 }
}

// call returns the answer to a POST to the API.
func (r *rig) call(path string, body any) (a answered) {
	r.t.Helper()
	text := testkit.Must(json.Marshal(body))(r.t)
	response, answer := testkit.Fetch(r.t, http.DefaultClient, http.MethodPost, r.api+path, string(text), "Content-Type: application/json")
	if err := json.Unmarshal([]byte(answer), &a); err != nil {
		r.t.Fatal(err)
	}
	a.status = response.StatusCode
	return a
}

// question asks for a user whether a request may pass.
func question(user string) map[string]any {
	return map[string]any{"method": "GET", "path": "/", "peer": "192.0.2.1", "claims": map[string]string{"user": user}}
}
