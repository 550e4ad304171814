package server

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// TestEnvoyLog: what Envoy's service decides is logged as all else is, as often as the policies
// say, and still counted. That its configuration has changed is logged, too.
func TestEnvoyLog(t *testing.T) {
	c := everywhere(t)
	put(t, c.Policies, three+"log: {rejections: 1000000}\n")
	r := start(t, c)
	const question = `{"domain": "test", "descriptors": [{"entries": [{"key": "user", "value": "somebody-in-particular"}]}]}`
	const asked = 30
	var answer []byte
	for i := range asked {
		response, err := http.Post(r.url(HTTP, "/json"), "application/json", strings.NewReader(question))
		if err != nil {
			t.Fatal(err)
		}
		if answer, err = io.ReadAll(response.Body); err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if denied := response.StatusCode == http.StatusTooManyRequests; denied != (i >= 3) {
			t.Fatalf("request %d: %s", i+1, response.Status)
		}
	}
	id := regexp.MustCompile(`"X-RateLimit-Denial",\s*"value":\s*"([0-9a-f]{16})"`).FindSubmatch(answer)
	if id == nil {
		t.Fatalf("the answer has no id: %s", answer)
	}
	if _, body := r.get(Admin, "/api/why?id="+string(id[1]), ""); !strings.Contains(body, `"limit":"3/1h"`) {
		t.Errorf("why: %s", body)
	}
	denied := 0
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, `level=WARN msg="stint: denied" policy=test.user tier=envoy key=envoy:test:u… `) &&
			strings.Contains(line, " limit=3/1h retry_after=") {
			denied++
		}
	}
	if denied != asked-3 || strings.Contains(r.log.String(), "somebody-in-particular") {
		t.Errorf("%d of %d denials are logged:\n%s", denied, asked-3, r.log)
	}
	if _, body := r.get(Admin, "/metrics", ""); !strings.Contains(body,
		`stint_decisions_total{outcome="denied",policy="test.user",reason="limit",tier="envoy"} 27`) {
		t.Error("the denials are not counted")
	}
	put(t, filepath.Join(c.Envoy.Rules, "test.yaml"), strings.Replace(rules, "3", "4", 1))
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.log.String(), "server: the configuration of Envoy's service has changed and is in force") {
		t.Errorf("got %s", r.log)
	}
}

// TestEnvoyMerge has two files configure one domain if that is wanted, at the start and when they
// change.
func TestEnvoyMerge(t *testing.T) {
	c := everywhere(t)
	more := filepath.Join(c.Envoy.Rules, "more.yaml")
	put(t, more, "domain: test\ndescriptors: [{key: guest, rate_limit: {unit: hour, requests_per_unit: 1}}]\n")
	if _, err := New(c); err == nil {
		t.Error("two files with one domain: no error")
	}
	c.Envoy.MergeDomains = true
	r := start(t, c)
	limits := func() string {
		_, body := r.get(Admin, "/rlconfig", "")
		return body
	}
	const user, rest = "test.user: unit=HOUR requests_per_unit=3", ", shadow_mode: false, quota_mode: false\n"
	if got, want := limits(), "test.guest: unit=HOUR requests_per_unit=1"+rest+user+rest; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	put(t, more, "domain: test\ndescriptors: [{key: guest, rate_limit: {unit: hour, requests_per_unit: 2}}]\n")
	testkit.Eventually(t, "the new rules",
		func() bool { return limits() == "test.guest: unit=HOUR requests_per_unit=2"+rest+user+rest })
}
