package e2e

import (
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

// exampleTiers is a gateway with the shipped example.
type exampleTiers struct {
	t   *testing.T
	url string
}

func startExample(t *testing.T, store string) *exampleTiers {
	t.Helper()
	policies, err := os.ReadFile("../../../examples/tiers/stint.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return &exampleTiers{t, proxied(t, string(policies), served, func(c *server.Config) { c.Store = store })}
}

// do sends a request such as "GET /api/pdb/1crn" with header fields such as "X-User-ID: 42", which
// the example believes because it trusts this machine as a proxy.
func (e *exampleTiers) do(request string, fields ...string) *http.Response {
	e.t.Helper()
	method, path, _ := strings.Cut(request, " ")
	response, _ := fetch(e.t, method, e.url+path, "", fields...)
	return response
}

// allowed reports whether a request was allowed, and fails the test on any answer but yes and no.
func (e *exampleTiers) allowed(request string, fields ...string) bool {
	e.t.Helper()
	r := e.do(request, fields...)
	if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusTooManyRequests {
		e.t.Fatalf("%s: got %s", request, r.Status)
	}
	return r.StatusCode == http.StatusOK
}

// TestExampleKeysAreDocumented: requests are counted in Redis under the keys that the example names.
func TestExampleKeysAreDocumented(t *testing.T) {
	redis := redistest.Start(t)
	e := startExample(t, redis.URL())
	const fetch, start = "GET /api/pdb/1crn", "POST /api/simulation/start"
	for _, test := range []struct {
		request string
		fields  []string
		want    []string
	}{
		{fetch, []string{"X-Forwarded-For: 203.0.113.9"}, []string{"{ip:203.0.113.9}:global", "{ip:203.0.113.9}:pdb-fetch"}},
		{fetch, []string{"X-User-ID: 42"}, []string{"{user:42}:api", "{user:42}:pdb-fetch"}},
		{fetch, []string{"X-API-Key-ID: k7"}, []string{"{apikey:k7}:api", "{apikey:k7}:pdb-fetch"}},
		{start, []string{"X-Session-ID: s1"}, []string{"{session:s1}:api", "{session:s1}:simulation"}},
		{start, []string{"X-User-ID: 43", "X-Session-ID: s2"}, []string{"{user:43}:api", "{session:s2}:simulation"}},
		{fetch, []string{"X-Service: billing"}, []string{"{internal:billing}"}},
	} {
		if !e.allowed(test.request, test.fields...) {
			t.Fatalf("%s %q is denied", test.request, test.fields)
		}
		for _, key := range test.want {
			testkit.EventuallyNil(t, key, func() error { // a slow Redis is charged afterwards
				if redis.CLI(t, "EXISTS", "stint:"+key+":limits") != "1" {
					return io.ErrUnexpectedEOF
				}
				return nil
			})
		}
	}
	keys := slices.DeleteFunc(strings.Fields(redis.CLI(t, "KEYS", "stint:{internal:billing}:*")), func(key string) bool {
		return strings.HasSuffix(key, ":seen") // charged afterwards, if Redis was slow
	})
	if !slices.Equal(keys, []string{"stint:{internal:billing}:limits"}) {
		t.Errorf("a service is counted under %q, want its own key alone", keys)
	}

	// A device is an address and its X-Fingerprint.
	login := func(fingerprint string) bool {
		return e.allowed("POST /login", "X-Forwarded-For: 203.0.113.10", "X-Fingerprint: "+fingerprint)
	}
	for i := range 5 {
		if !login("one") {
			t.Fatalf("login %d is denied", i+1)
		}
	}
	if login("one") || !login("two") {
		t.Error("logins of one fingerprint: want 5, whatever another one does")
	}
}
