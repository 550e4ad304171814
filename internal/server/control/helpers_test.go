package control_test

import (
	"errors"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/redisstore"
)

// inMemory returns an Admin over an empty store in memory and the example policies, as far as it is
// not set up otherwise.
func inMemory(t *testing.T, c control.Config) *control.Admin {
	t.Helper()
	return over(t, memory(t), c)
}

func memory(t *testing.T) *memorystore.Store {
	t.Helper()
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// inRedis returns the same over a Redis.
func inRedis(t *testing.T, c control.Config) *control.Admin {
	t.Helper()
	store, err := redisstore.Open(t.Context(), redisstore.Config{URL: redistest.Start(t).URL() + "?dial_timeout=10s"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return over(t, store, c)
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
	conf, err := config.Parse("stint.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return control.Config{Set: func() *policy.Set { return conf.Set }}
}

// of returns the target of a subject.
func of(subject string) control.Target { return control.Target{Subject: subject} }

// subjectOf returns what is known of a subject.
func subjectOf(t *testing.T, d *control.Admin, name string) control.Subject {
	t.Helper()
	result, err := d.Subject(t.Context(), of(name))
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// take asks, and fails the test if that cannot be answered.
func take(t *testing.T, d *control.Admin, a control.TakeRequest) control.TakeResult {
	t.Helper()
	result, err := d.Take(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return result
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
	var invalid *stint.InvalidError
	if !errors.As(err, &invalid) || invalid.Err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
