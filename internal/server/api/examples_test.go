package api_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/memorystore"
)

// exampleRules is the configuration that the document's examples are decided by.
const exampleRules = `client_ip: {trusted_proxies: loopback}
claims: {user: X-User-ID, rpm: ""}
tiers:
  - {name: free, identity: user, limits: 10/1m, budget: 100/1h}
  - {name: anonymous, identity: ip, limits: 3/1m}
policies:
  - {name: login, match: {method: POST, path: /login}, identity: ip, limits: 5/15m}
  - {name: export, match: {path: /export}, limits: 9/30s concurrency}
  - {name: search, match: {path: /search}, limits: {limit: 60/1m, claim: rpm, max: 1000}}
outbound: {igdb: {preset: igdb}}
`

// exampleCharge stands for a charge in the document: no two are the same.
const exampleCharge = "CHARGE"

// exampleDenial stands for the id of a denial.
const exampleDenial = "691c0f3e8a1b2c3d"

// chargedBy is the example of take whose charge the example of an operation corrects.
var chargedBy = map[string]string{
	"settle": "by-tier", "refund": "by-tier", "extend": "by-concurrency", "release": "by-concurrency",
}

// exampleServer decides by exampleRules, at a time that stands still.
func exampleServer(t *testing.T) *server {
	t.Helper()
	return serve(t, guardtest.MemoryWith(t, memorystore.Config{Now: func() time.Time { return time.Unix(1e9, 0) }}), exampleRules)
}

// requestExample is an example of what an operation takes.
func requestExample(t *testing.T, path, name string) string {
	t.Helper()
	value := specification(t).at(bodyOf(path) + "/examples/" + name + "/value")
	if value == nil {
		t.Fatalf("%s has no example %q", path, name)
	}
	return string(marshal(t, value))
}

// Every example in the document is answered as the document says, from a new server on. All that is
// not equal is the charge.
func TestExamples(t *testing.T) {
	compare := func(path string, a answer) {
		t.Helper()
		var got any
		a.loosely(&got)
		hideCharges(got)
		want := specification(t).example(path, a.Code)
		if g, w := string(marshal(t, got)), string(marshal(t, want)); g != w {
			t.Errorf("%s %d: the server answers\n%s\nthe document says\n%s", path, a.Code, g, w)
		}
	}
	for path := range specification(t).paths() {
		id := specification(t).operation(path)["operationId"].(string)
		if specification(t).method(path) == "get" {
			a := exampleServer(t).send(get(path, "127.0.0.1:1", "X-User-Id: 42"), "")
			if a.Code != http.StatusOK {
				t.Errorf("%s: %d", path, a.Code)
			}
			if specification(t).example(path, a.Code) != nil {
				compare(path, a)
			}
			continue
		}
		examples := specification(t).at(bodyOf(path) + "/examples").(map[string]any)
		for i, name := range sortedKeys(examples) {
			s := exampleServer(t)
			body := requestExample(t, path, name)
			if of := chargedBy[id]; of != "" {
				charge := s.post("/v1/take", requestExample(t, "/v1/take", of)).decision(http.StatusOK).Charge
				body = strings.ReplaceAll(body, exampleCharge, charge)
			}
			a := s.post(path, body)
			if a.Code != http.StatusOK {
				t.Errorf("%s %s: %d %s", path, name, a.Code, a.Body)
			}
			if i == 0 {
				compare(path, a)
			}
		}
	}

	s := exampleServer(t)
	compare("/v1/take", s.post("/v1/take", `{"policy":"login"}`))
	const login = `{"subject":"user:42","policy":"login"}`
	for range 5 {
		s.post("/v1/take", login).decision(http.StatusOK)
	}
	denied := s.post("/v1/take", login)
	if denied.Code != http.StatusTooManyRequests {
		t.Errorf("the sixth login: %d", denied.Code)
	}
	compare("/v1/take", denied)
}

// hideCharges replaces charges by the one that stands for all.
func hideCharges(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if text, ok := member.(string); ok && name == "charge" && text != "" {
				v[name] = exampleCharge
			}
			if name == "denial" {
				v[name] = exampleDenial
			}
			hideCharges(member)
		}
	case []any:
		for _, element := range v {
			hideCharges(element)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
