package policy_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stint-limiter/stint/policy"
)

// TestExplanationSaysWhy: each tier and policy with the part of its conditions that was decisive.
func TestExplanationSaysWhy(t *testing.T) {
	w := newWorld(t, `
client_ip: {trusted_proxies: 10.0.0.0/8}
claims: {user: X-User-ID, plan: X-Plan}
identities: {key: {header: X-Key}}
tiers:
  - {name: pro, match: {claim: {plan: [pro, team]}}, identity: user, limits: 10/1m}
  - {name: keyed, identity: key, limits: 10/1m}
  - {name: signed-in, identity: user, limits: 10/1m}
  - {name: anyone, identity: ip, limits: 10/1m}
policies:
  - {name: posts, match: {method: POST}, limits: 5/1m}
  - {name: reports, match: {method: GET, path: [/reports, "/reports/{id}"]}, limits: 5/1m}
  - {name: api, match: {host: api.example.com}, limits: 5/1m}
  - {name: traced, match: {header: {X-Trace: "*", X-Kind: [a, b]}}, limits: 5/1m}
  - {name: keyed-only, limits: {keyed: 5/1m}}
  - {name: static, match: {path: /static/*}, skip: true}
  - {name: rest, match: {host: example.com}, unless: {path: /health, method: GET}, limits: 5/1m}
`)
	type why map[string]string
	with := func(path string, header ...string) policy.Input {
		in, fields := get(path), http.Header{}
		for i := 0; i < len(header); i += 2 {
			fields.Set(header[i], header[i+1])
		}
		in.Header = fields
		return in
	}
	const other = "the claim does not fit: wants plan to be pro or team"
	for _, test := range []struct {
		name            string
		in              policy.Input
		applies         []string
		tiers, policies why // those that the case is about
	}{
		{"a stranger", with("/other"), []string{"anyone", "rest"},
			why{
				"pro":       other,
				"keyed":     "the request has no identity key",
				"signed-in": "the request has no identity user",
				"anyone":    "the request has the identity ip",
			}, why{
				"posts":      "the method is not POST",
				"reports":    "the path does not fit /reports or /reports/{id}",
				"api":        "the host is not api.example.com",
				"traced":     "the header does not fit: wants X-Kind to be a or b, wants any X-Trace",
				"keyed-only": `it has no limits for the tier "anyone"`,
				"rest":       "it matches by host",
			}},
		{"a claim from a peer that is not trusted", with("/other", "X-User-Id", "7"), []string{"anyone", "rest"},
			why{"signed-in": "the request has no identity user (X-User-Id is accepted only from trusted proxies)"}, nil},
		{"a header that is no claim needs no trust", with("/other", "X-Key", "k"),
			[]string{"keyed", "keyed-only", "rest"},
			why{"keyed": "the request has the identity key"}, why{"keyed-only": "it takes all"}},
		{"several parts", with("/reports/7", "X-Trace", "1", "X-Kind", "b"),
			[]string{"anyone", "reports", "traced", "rest"}, nil,
			why{"reports": "it matches by method, path", "traced": "it matches by header"}},
		{"all readings have to be exempt", with("/static/..;/other"), []string{"anyone", "rest"}, nil,
			why{"static": "the path does not fit /static/*"}},
		{"an exception", with("/health"), []string{"anyone"}, nil, why{"rest": "its unless matches, by method, path"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := w.Set().Explain(&test.in, nil)
			var applies []string
			for _, of := range []struct {
				got  []policy.Considered
				want why
			}{{e.Tiers, test.tiers}, {e.Policies, test.policies}} {
				for _, c := range of.got {
					if c.Applies {
						applies = append(applies, c.Name)
					}
					if want, ok := of.want[c.Name]; ok && c.Why != want {
						t.Errorf("%s: %q, want %q", c.Name, c.Why, want)
					}
				}
			}
			if !slices.Equal(applies, test.applies) {
				t.Errorf("%q apply, want %q", applies, test.applies)
			}
		})
	}
}

// TestExplanationOfSettling: all corrections after a response.
func TestExplanationOfSettling(t *testing.T) {
	for config, want := range map[string]string{
		"settle: {header: X-Cost}, refund: [404, 5xx]": "budgets are settled by the response header X-Cost; " +
			"everything is given back after a 404; everything is given back after a 5xx",
		"settle: {header: X-Cost, max_debt: 30}": "budgets are settled by the response header X-Cost, with a debt of at most 30",
		"settle: {bytes: 64, max_debt: 1}":       "budgets are settled at a unit per 64 bytes of response body, with a debt of at most 1",
		"cost: 2":                                "",
	} {
		in := get("/")
		if got := parse(t, "tiers: [{name: all, identity: ip, budget: 10/1m}]\npolicies: [{name: p, "+config+"}]").Explain(&in, nil).After; got != want {
			t.Errorf("%s: explained as %q, want %q", config, got, want)
		}
	}
}
