package api_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"slices"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/policy"
)

// usage asks as a peer does, with a header that says who is asking.
func (s *server) usage(peer, user string, more ...string) answer {
	s.t.Helper()
	return s.send(get("/v1/usage", peer+":1", append(more, "X-User: "+user)...), "")
}

type used struct {
	Tier   string
	Limits []struct {
		Subject, Policy, Name, Limit, Scope string
		Costs                               bool
		Max, Burst, Used, Remaining         int64
		Window                              float64  `json:"window_seconds"`
		ResetAfter                          *float64 `json:"reset_after_seconds"`
		RetryAfter                          *float64 `json:"retry_after_seconds"`
	}
}

// doubled gives user:42 twice as much under the tier free.
type doubled struct{}

func (doubled) Limits(subject, policy string, configured []stint.Limit) []stint.Limit {
	if policy != "free" || subject != "user:42" {
		return configured
	}
	more := slices.Clone(configured)
	for i := range more {
		more[i].Max *= 2
	}
	return more
}

const usageRules = `
client_ip: {trusted_proxies: [10.0.0.0/8]}
claims: {user: X-User, org: X-Org}
identities: {org: {claim: org}}
tiers:
  - {name: free, identity: user, limits: [10/1m, 100/month], budget: 20/1h}
  - {name: anonymous, identity: ip, limits: 3/1m}
policies:
  - {name: login, match: {path: /login}, identity: ip, limits: 2/15m}
  - {name: search, match: {path: /search}, limits: 5/1m}
  - {name: org, match: {path: /org}, identity: [org, ip], limits: 7/day}
  - {name: item, match: {path: "/items/{id}"}, per: id, limits: 9/1m}
  - {name: trial, match: {path: /trial}, limits: 1/1m, shadow: true}
  - {name: paid, match: {path: /paid, claim: {plan: pro}}, limits: 1/1m}
`

// A caller sees its own use, with overrides and without what is not counted by its claims, and asks
// without being charged for it.
func TestUsage(t *testing.T) {
	s := serveGuarded(t, guardtest.Memory(t), usageRules, policy.GuardConfig{Overrides: doubled{}})
	for range 3 {
		s.post("/v1/take", `{"method":"GET","path":"/search","peer":"203.0.113.9","claims":{"user":"42"},"cost":2}`).decision(200)
	}
	var got used
	for range 2 {
		s.usage("10.0.0.1", "42").into(200, &got)
	}
	type row struct {
		policy, limit   string
		used, remaining int64
		costs           bool
	}
	var rows []row
	for _, l := range got.Limits {
		if l.Subject != "user:42" {
			t.Errorf("it shows %s", l.Subject)
		}
		rows = append(rows, row{l.Policy, l.Limit, l.Used, l.Remaining, l.Costs})
	}
	want := []row{{"free", "20/1m", 3, 17, false}, {"free", "200/month", 3, 197, false},
		{"free", "cost: 40/1h", 6, 34, true}, {"search", "5/1m", 3, 2, false}}
	if got.Tier != "free" || !slices.Equal(rows, want) {
		t.Errorf("got %s %v, want %v", got.Tier, rows, want)
	}

	for _, body := range []string{`{"subject":"user:42","tier":"free"}`,
		`{"subject":"user:42","tier":"free","and":[{"subject":"ip:::2","policy":"login"}]}`} {
		if l := s.post("/v1/take", body).decision(200).Limits[0]; l.Limit != "20/1m" {
			t.Errorf("%s: got %s, want that of the override", body, l.Limit)
		}
	}
	s.usage("10.0.0.1", "7", "X-Org: acme").into(200, &got)
	if n := len(got.Limits); n != 5 || got.Limits[n-1].Subject != "org:acme" || got.Limits[n-1].Limit != "7/day" {
		t.Errorf("of an organization: %+v", got)
	}
}

// Only trusted proxies and certificates say who is asking.
func TestUsageOfWhom(t *testing.T) {
	s := serve(t, guardtest.Memory(t), usageRules)
	for peer, user := range map[string]string{"203.0.113.9": "42", "10.0.0.1": ""} {
		if p := s.usage(peer, user).problem(401); p.Error != "unauthorized" {
			t.Errorf("%s %q: %v", peer, user, p)
		}
	}
	certificate := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{
		{{Subject: pkix.Name{CommonName: "ann"}}}}}
	ask := func(peer string, state *tls.ConnectionState) answer {
		r := get("/v1/usage", peer, "X-User: somebody else")
		if r.TLS = state; peer == "10.0.0.1:1" {
			r.Header.Del("X-User")
		}
		return s.send(r, "")
	}
	var got used
	if ask("203.0.113.9:1", certificate).into(200, &got); got.Limits[0].Subject != "user:ann" {
		t.Errorf("by certificate: %+v", got)
	}
	ask("203.0.113.9:1", &tls.ConnectionState{PeerCertificates: certificate.VerifiedChains[0]}).problem(401)
	ask("10.0.0.1:1", certificate).problem(401) // the proxy's own, which is not who is asking
}

// Asking is limited by caller, and charged to nothing else.
func TestUsageIsLimited(t *testing.T) {
	s := serve(t, guardtest.Memory(t), usageRules)
	for range 60 {
		s.usage("10.0.0.1", "42").into(200, &used{})
	}
	a := s.usage("10.0.0.1", "42")
	if p := a.problem(429); p.Error != "limited" || a.Header().Get("Retry-After") == "" {
		t.Errorf("the 61st: %v, Retry-After %q", p, a.Header().Get("Retry-After"))
	}
	var got used
	if s.usage("10.0.0.1", "43").into(200, &got); got.Limits[0].Used != 0 {
		t.Errorf("another caller: %+v", got)
	}
}
