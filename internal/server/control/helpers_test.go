package control_test

import (
	"errors"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/redisstore"
)

// inMemory returns an Admin over an empty store in memory and the example policies, as far as it is
// not set up otherwise.
func inMemory(t *testing.T, c control.Config) *control.Admin {
	t.Helper()
	return over(t, guardtest.Memory(t), c)
}

// inRedis returns the same over a Redis.
func inRedis(t *testing.T, c control.Config) *control.Admin {
	t.Helper()
	return over(t, guardtest.Redis(t, redisstore.Config{URL: redistest.Start(t).URL() + "?dial_timeout=10s"}), c)
}

// perRoute has tiers that count each route by itself, and policies of every kind.
const perRoute = `
identities:
  apikey: {claim: key}
  session: {claim: session}
  service: {claim: service, type: internal}
  fingerprint: {header: X-Fingerprint}
  device: {all: [ip, fingerprint]}
tiers:
  - {name: internal, identity: service, scope: none, limits: 1000/1m}
  - {name: enterprise, match: {claim: {plan: enterprise}}, identity: [user, apikey], scope: route, limits: [500/1m burst 5x, 10000/1h]}
  - {name: pro, match: {claim: {plan: pro}}, identity: [user, apikey], scope: route, limits: [100/1m burst 3x, 2000/1h, 50000/1d]}
  - {name: free, identity: [user, apikey, session], scope: route, limits: [30/1m burst 2x, 500/1h, 5000/1d]}
  - {name: anonymous, identity: ip, limits: [10/1m burst 2x, 100/1h, 1000/1d]}
policies:
  - {name: structure, match: {method: GET, path: "/structures/{id}"}, cost: 1}
  - {name: simulate, match: {method: POST, path: /simulations}, cost: 10, limits: "endpoint: 50/60s"}
  - {name: frames, match: {method: GET, path: "/simulations/{id}/frames"}, cost: 5}
  - {name: export, match: {method: POST, path: "/structures/{id}/pdf"}, cost: 3}
  - {name: work, budget: {anonymous: 100/1h, free: 1000/1h, pro: 10000/1h, default: unlimited}}
  - {name: login, match: {method: POST, path: /login}, identity: [device, ip], limits: 5/15m}
bans: {after: 100, within: 1m, durations: [1m, 5m, 1h, 24h], forgive: 24h}
outbound: {igdb: {preset: igdb}, musicbrainz: {preset: musicbrainz}, tmdb: {preset: tmdb}, spotify: {preset: spotify}}
`

func over(t *testing.T, store driver.Inspector, c control.Config) *control.Admin {
	t.Helper()
	c.Store = store
	if c.Set == nil {
		c.Set = configured(t, perRoute).Set
	}
	return control.New(c)
}

// configured returns a set-up with a configuration.
func configured(t *testing.T, text string) control.Config {
	t.Helper()
	set := guardtest.Parse(t, text)
	return control.Config{Set: func() *policy.Set { return set }}
}

// of returns the target of a subject.
func of(subject string) control.Target { return control.Target{Subject: subject} }

// subjectOf returns what is known of a subject.
func subjectOf(t *testing.T, d *control.Admin, name string) control.Subject {
	t.Helper()
	return testkit.Must(d.Subject(t.Context(), of(name)))(t)
}

// take asks, and fails the test if that cannot be answered.
func take(t *testing.T, d *control.Admin, a control.TakeRequest) control.TakeResult {
	t.Helper()
	return testkit.Must(d.Take(t.Context(), a))(t)
}

// newLimit returns a limit of a subject by whose it is, where it counts, and its text.
func newLimit(t *testing.T, result *control.Subject, tier, policy, scope, limit string) control.Limit {
	t.Helper()
	for _, l := range result.Limits {
		if l.Tier == tier && l.Policy == policy && l.Scope == scope && l.Limit == limit {
			return l
		}
	}
	t.Fatalf("%s has no limit %q of %q, %q in %q: %+v", result.Subject, limit, tier, policy, scope, result.Limits)
	return control.Limit{}
}

func wantInvalid(t *testing.T, err error, want string) {
	t.Helper()
	if invalid, ok := errors.AsType[*stint.InvalidError](err); !ok || invalid.Err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
