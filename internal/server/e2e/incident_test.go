package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// incidentRules have a policy that denies everything without Redis. Everything else goes on under
// local limits.
const incidentRules = `
bans: {after: 0}
failure: {budget: 2s} # a busy machine is no outage
tiers:
  - {name: anonymous, identity: ip, limits: 30/1m}
policies:
  - {name: login, match: {path: /login}, limits: 5/1m, failure: {mode: deny, budget: 2s}}
`

// flooder is the address that the flood is from.
const flooder = "203.0.113.9"

// shootAfter is how long a picture waits, so that there is something to see on it.
const shootAfter = 6 * time.Second

// TestIncident is a night on call, on a desk and on a phone: one address floods, and is banned;
// Redis is killed; Redis is back. The page has to say so within ten seconds. How long it took is in
// the log of the test: a machine with other work may need longer.
func TestIncident(t *testing.T) {
	redis := redistest.Start(t)
	r := start(t, incidentRules, withToken(t), sharing(redis.URL()))
	browser := browsertest.Start(t)
	desk, phone := browser.Page(t, 1280, 720), browser.Page(t, 390, 844)
	screens := map[string]*browsertest.Page{"desk": desk, "phone": phone}
	for _, page := range screens {
		page.Expect("503")
		r.signIn(page, "overview", operator)
	}
	flood := r.traffic(t)
	says(t, screens, "before", "Limiter healthy. No subject is limited.")

	// A flood from one address.
	flood.Store(true)
	says(t, screens, "flood", "Limiter healthy. Under attack: ip:"+flooder, "requests/s, 100% denied.")
	for _, page := range screens {
		page.WaitText(".overview .top", "ip:"+flooder)
	}
	shoot(t, screens, "incident-flood")

	// Who it is, and what they do, is a click away, and so is the ban.
	desk.Click(".verdict h1 a")
	desk.WaitText(".who h2", "ip:"+flooder)
	desk.WaitText(".denials .facts", "100% denied")
	desk.Wait("document.querySelectorAll('.denials tbody tr').length === 5")
	act(desk, "ban")
	desk.WaitText(".who .banned", "The ban has matched ")
	desk.Wait(`/The ban has matched [1-9]\d* requests?\./.test(document.querySelector(".who .banned").textContent)`)
	desk.Wait(`document.activeElement.dataset.act === "ban"`)
	desk.Click("nav [data-view=bans]")
	desk.WaitText("section.bans tbody", "ip:"+flooder)
	desk.Wait(`/[1-9]\d* requests?/.test(document.querySelector("section.bans tbody").textContent)`)
	desk.Click("nav [data-view=overview]")
	flood.Store(false)

	// Redis is gone. An alert that waits a minute is not firing yet.
	redis.Kill()
	says(t, screens, "outage", "Limiter degraded: Redis cannot be reached.", "Redis has been down for ", "connection refused",
		"Local limits apply to the tier anonymous.", "All requests are denied for the policy login.")
	for name, page := range screens {
		page.WaitText(".strip", "as of ")
		page.WaitText("#alerts .pending [data-alert=StoreDown]", "fires after 1 m")
		if got := page.Text("#alerts [data-alert=StoreDown]"); strings.Contains(got, "more than") {
			t.Errorf("%s: %s", name, got)
		}
	}
	shoot(t, screens, "incident-outage")
	phone.Click("#menu")
	phone.Click("nav [data-view=bans]")
	phone.WaitText("section.bans", "Cannot load the bans: The store did not answer")
	if got := phone.Text("section.bans"); strings.Contains(got, "Loading") {
		t.Errorf("the bans are looked for and failed at once: %s", got)
	}
	phone.Click("#menu")
	phone.Click("nav [data-view=overview]")

	// And it is back.
	redis.Restart(t)
	says(t, screens, "recovery", "Limiter healthy.")
	for _, page := range screens {
		page.Wait(`!document.querySelector(".strip").textContent.includes("as of")`)
		page.WaitText(".strip", "closed")
	}
	shoot(t, screens, "incident-recovery")
	phone.Click("#menu")
	phone.Click("nav [data-view=bans]") // the data is gone with the old Redis
	phone.WaitText("section.bans .empty", "No subject is banned.")
}

// says waits until all pages say something in their verdict, and logs how long it took since now.
func says(t *testing.T, screens map[string]*browsertest.Page, what string, texts ...string) {
	t.Helper()
	began := time.Now()
	for name, page := range screens {
		testkit.EventuallyNil(t, what+" on the "+name, func() error {
			got := page.Text(".verdict")
			for _, text := range texts {
				if !strings.Contains(got, text) {
					return fmt.Errorf("it says %q, want %q", got, text)
				}
			}
			return nil
		})
		t.Logf("%s: the %s says so after %v", what, name, time.Since(began).Round(100*time.Millisecond))
	}
}

// traffic has callers all over the place until the test ends, each within its limit, a login now
// and then, and sixty requests a second more from the flooder while the result is true.
func (r *rig) traffic(t *testing.T) *atomic.Bool {
	flood, end := &atomic.Bool{}, make(chan struct{})
	done := make(chan struct{})
	send := func(peer, path string) {
		body := fmt.Sprintf(`{"method": "GET", "path": %q, "peer": %q}`, path, peer)
		response, err := http.Post(r.api+"/v1/take", "application/json", bytes.NewReader([]byte(body)))
		if err == nil { // it may end with the test
			_ = response.Body.Close()
		}
	}
	go func() {
		defer close(done)
		ticker := time.NewTicker(time.Second / 60)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			case <-ticker.C:
			}
			if i%3 == 0 {
				send(fmt.Sprintf("198.51.100.%d", i/3%200), map[bool]string{true: "/login", false: "/"}[i%30 == 0])
			}
			if flood.Load() {
				send(flooder, "/")
			}
		}
	}()
	t.Cleanup(func() { close(end); <-done })
	return flood
}

// shoot makes pictures for the documentation, if they are wanted.
func shoot(t *testing.T, screens map[string]*browsertest.Page, name string) {
	t.Helper()
	directory := os.Getenv(screenshotsEnv)
	if directory == "" {
		return
	}
	time.Sleep(shootAfter)
	for screen, page := range screens {
		for _, scheme := range []string{"light", "dark"} {
			page.Prefer("prefers-color-scheme", scheme)
			page.Wait("document.getAnimations().length === 0")
			save(t, page, filepath.Join(directory, name+"-"+screen+"-"+scheme+".png"), false)
		}
	}
}
