package httplimit_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/examples/tiers"
	"github.com/stint-limiter/stint/httplimit"
)

// idle is a ResponseWriter that costs nothing.
type idle struct{ header http.Header }

func (w *idle) Header() http.Header             { return w.header }
func (*idle) Write(p []byte) (int, error)       { return len(p), nil }
func (*idle) WriteString(s string) (int, error) { return len(s), nil }
func (*idle) WriteHeader(int)                   {}

// tierTable is the five tiers of the documents, and one that is never denied anything.
const tierTable = `
identities: {service: {claim: service, type: internal}}
tiers:
  - {name: vast, match: {claim: {plan: vast}}, identity: user, limits: [1000000000/1m burst 2x, 100000000000/1h, 1000000000000/1d]}
  - {name: internal, identity: service, scope: none, limits: [1000/1m]}
  - {name: enterprise, match: {claim: {plan: enterprise}}, identity: user, limits: [500/1m burst 5x, 10000/1h]}
  - {name: pro, match: {claim: {plan: pro}}, identity: user, limits: [100/1m burst 3x, 2000/1h, 50000/1d]}
  - {name: free, identity: user, limits: [30/1m burst 2x, 500/1h, 5000/1d]}
  - {name: anonymous, identity: ip, limits: [10/1m burst 2x, 100/1h, 1000/1d]}
`

// policyTable is the policies by path that stand beside the tiers in bench/suite_http.go.
const policyTable = `
policies:
  - {name: assets, match: {path: [/static/**, /favicon.ico, /robots.txt]}, skip: true}
  - {name: structure, match: {method: GET, path: "/structures/{id}"}, cost: 1}
  - {name: simulate, match: {method: POST, path: /simulations}, cost: 10}
  - {name: frames, match: {method: GET, path: "/simulations/{id}/frames"}, cost: 5}
  - {name: export, match: {method: POST, path: "/structures/{id}/pdf"}, cost: 3}
`

// signedIn makes every request one of a member of the tier that is never denied anything.
func signedIn() httplimit.Option { return planned("vast") }

// planned makes every request one of a user with a plan.
func planned(plan string) httplimit.Option {
	return httplimit.WithClaims(func(_ *http.Request, name string) string {
		switch name {
		case "user":
			return "42"
		case "plan":
			return plan
		case "rpm":
			return "1000000000"
		}
		return ""
	})
}

// BenchmarkMiddleware is a request through the middleware over the memory store, beside the bare
// handler: the rows of bench/suite_http.go.
func BenchmarkMiddleware(b *testing.B) {
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	table := tierTable + policyTable
	draft := "headers: {format: draft-11}" + table
	example := strings.NewReplacer(
		"[500/1m burst 5x, 10000/1h, unlimited/1d]", "[1000000000/1m burst 2x, 60000000000/1h, 1440000000000/1d]",
		"default: unlimited", "default: 60000000000/1h").Replace(string(tiers.YAML))
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{
		{"bare", next},
		{"allowed", httplimit.New(guardOf(b, table), signedIn())(next)},
		{"denied", httplimit.New(guardOf(b, table))(next)},
		{"draft-11/allowed", httplimit.New(guardOf(b, draft), signedIn())(next)},
		{"draft-11/denied", httplimit.New(guardOf(b, draft))(next)},
		{"example/allowed", httplimit.New(guardOf(b, example), planned("enterprise"))(next)},
		{"example/denied", httplimit.New(guardOf(b, example))(next)},
		{"claimed/allowed", httplimit.New(guardOf(b, strings.Replace(table, "[1000000000/1m burst 2x,",
			"[{limit: 1/1m burst 2x, claim: rpm, max: 1000000000},", 1)), signedIn())(next)},
		{"by/allowed", httplimit.ByIP(stint.PerHour(1 << 40))(next)},
		{"by/denied", httplimit.ByIP(stint.PerHour(1))(next)},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := request(http.MethodGet, "/elsewhere")
			w := &idle{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				c.handler.ServeHTTP(w, r)
			}
		})
	}
}
