package e2e

import (
	"net/http"
	"testing"
)

// TestContactInDenials: a denial by the API and by forward-auth says where to ask for more. The
// contact of the policy comes before that of the tier, and that before the one for all.
// The forms of the middleware's answers are tested in httplimit.
func TestContactInDenials(t *testing.T) {
	const policies = `
contact: mailto:help@example.com
client_ip: {trusted_proxies: loopback}
tiers:
  - {name: pro, match: {header: {X-Plan: pro}}, identity: ip, limits: 1/1h, contact: Call your account manager}
  - {name: free, identity: ip, limits: 1/1h}
policies:
  - {name: export, match: {path: /export}, limits: 0/1h, contact: "https://example.com/more"}
`
	cases := []struct{ path, plan, contact string }{
		{"/export", "free", "https://example.com/more"},
		{"/export", "pro", "https://example.com/more"},
		{"/", "free", "mailto:help@example.com"},
		{"/", "pro", "Call your account manager"},
	}
	type answer struct{ Contact string }
	r := start(t, policies)
	for _, c := range cases {
		const members = `{"method": "GET", "peer": "192.0.2.1", `
		question := members + `"path": "` + c.path + `", "headers": {"X-Plan": "` + c.plan + `"}}`
		fetch(t, http.MethodPost, r.api+"/v1/take", question, "Content-Type: application/json")
		_, text := fetch(t, http.MethodPost, r.api+"/v1/take", question, "Content-Type: application/json")
		var got answer
		if decodeInto(t, text, &got); got.Contact != c.contact {
			t.Errorf("API, %s %s: got %s, want %q", c.plan, c.path, text, c.contact)
		}
		_, text = fetch(t, http.MethodGet, r.api+"/auth", "", "X-Forwarded-Method: GET", "X-Forwarded-Uri: "+c.path,
			"X-Plan: "+c.plan, "X-Forwarded-For: 192.0.2.1")
		got = answer{}
		if decodeInto(t, text, &got); got.Contact != c.contact {
			t.Errorf("forward-auth, %s %s: got %s, want %q", c.plan, c.path, text, c.contact)
		}
	}
}
