package dashboard

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
)

// customers begin alike, and one is denied by a rule in shadow too.
var customers = []string{"customer-1", "customer-2", "customer-3"}

// TestNames: operators see names in full, everywhere, unless they ask not to. Everybody else sees
// shortened ones, which differ from each other.
func TestNames(t *testing.T) {
	const bob = "Authorization: Bearer token-of-bob" // who may look
	who := func(r *http.Request) (string, bool) {
		name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		return name, name == token
	}
	r := newRig(t, func(c *Config) { c.Who = who })
	for _, name := range customers {
		for range 4 {
			r.ask(name, "/trial")
		}
		if status, text := r.post("/api/ban", `{"subject": "user:`+name+`", "for": "1h"}`); status != 200 {
			t.Fatalf("got %d, %s", status, text)
		}
	}
	ref := r.ref("user:customer-1")
	var all struct{ Violations []observe.Violation }
	testkit.Eventually(t, "the violations are counted", func() bool {
		r.get("/api/violations", &all)
		return len(all.Violations) >= len(customers)
	})
	for _, path := range []string{"/api/state", "/api/violations", "/api/top?by=user", "/api/bans", "/api/shadow",
		"/api/subject?ref=" + ref} {
		_, full := r.call(http.MethodGet, path, "", asAlice)
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		for reader, text := range map[string]string{
			"a reader":            call(r, path, bob),
			"without a token":     call(r, path),
			"alice, who hides it": call(r, path+sep+"names=short", asAlice),
		} {
			if strings.Contains(text, "customer") || !strings.Contains(text, "user:custom…#"+ref[:4]) {
				t.Errorf("%s: %s sees %s", path, reader, text)
			}
		}
		if !strings.Contains(full, `"user:customer-1"`) || strings.Contains(full, "user:custom…") {
			t.Errorf("%s: alice sees %s", path, full)
		}
	}
	if a, b := r.short("user:customer-1"), r.short("user:customer-2"); a == b {
		t.Errorf("two subjects are both %s", a)
	}

	// What a reader names is known to them. A look by ref tells them no name.
	if got := call(r, "/api/subject?subject=user:customer-1", bob); !strings.Contains(got, `"user:customer-1"`) {
		t.Errorf("by name: got %s", got)
	}
	_, got := r.call(http.MethodPost, "/api/take", `{"ref": "`+ref+`", "peek": true, "policy": "search"}`, bob,
		"Content-Type: application/json")
	if strings.Contains(got, "customer") || !strings.Contains(got, "user:custom…#") {
		t.Errorf("a peek: got %s", got)
	}
}

func call(r *rig, path string, fields ...string) string {
	_, text := r.call(http.MethodGet, path, "", fields...)
	return text
}

// TestNamesInAStream are those of the reader.
func TestNamesInAStream(t *testing.T) {
	r := newRig(t)
	for token, want := range map[string]string{token: `"user:customer-1"`, "": `"user:custom…#`} {
		request := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/api/stream", nil))(t)
		request.Header.Set("Authorization", "Bearer "+token)
		response := testkit.Must(http.DefaultClient.Do(request))(t)
		for range 5 {
			r.ask("customer-1", "/")
		}
		lines, found := bufio.NewScanner(response.Body), false
		for !found && lines.Scan() {
			found = strings.Contains(lines.Text(), want)
			if strings.Contains(lines.Text(), "customer") && token == "" {
				t.Errorf("without a token: %s", lines.Text())
			}
		}
		_ = response.Body.Close() // it has no end
		if !found {
			t.Errorf("with the token %q, %s is not in the stream: %v", token, want, lines.Err())
		}
	}
}

// TestNamesWithoutTokens: lists are shortened where there are no operators, and a subject that is
// opened has its name.
func TestNamesWithoutTokens(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Who = nil })
	for range 4 {
		r.ask("customer-1", "/")
	}
	if got := call(r, "/api/top?by=user"); !strings.Contains(got, "user:custom…#") ||
		strings.Contains(got, "customer") {
		t.Errorf("the list is %s", got)
	}
	if got := call(r, "/api/subject?ref="+r.ref("user:customer-1")); !strings.Contains(got, "user:customer-1") {
		t.Errorf("the subject is %s", got)
	}
}
