package control_test

import (
	"errors"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/examples/tiers"
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
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return over(t, store, c)
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

func over(t *testing.T, store driver.Inspector, c control.Config) *control.Admin {
	t.Helper()
	conf, err := config.Parse("stint.yaml", tiers.YAML)
	if err != nil {
		t.Fatal(err)
	}
	c.Store = store
	if c.Set == nil {
		c.Set = func() *policy.Set { return conf.Set }
	}
	return control.New(c)
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

// limitOf returns a limit of a subject by whose it is, where it counts, and its text.
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
