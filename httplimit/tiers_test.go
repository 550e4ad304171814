package httplimit_test

import (
	"net/http"

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

// signedIn makes every request one of a member of the tier that is never denied anything.
func signedIn() httplimit.GuardOption {
	return httplimit.WithClaims(func(_ *http.Request, name string) string {
		return map[string]string{"user": "42", "plan": "vast"}[name]
	})
}
