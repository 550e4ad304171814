// Package guardtest makes guards and stores for tests in many packages.
package guardtest

import (
	"log/slog"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// Claims are what an application knows of a caller, by name.
type Claims map[string]string

// Claim returns the claim of that name, or "".
func (c Claims) Claim(name string) string { return c[name] }

// Memory returns a store in memory that is closed when the test ends.
func Memory(t testing.TB) *memorystore.Store {
	t.Helper()
	return MemoryWith(t, memorystore.Config{})
}

// MemoryWith is [Memory] with a configuration, such as the clock of the test.
func MemoryWith(t testing.TB, c memorystore.Config) *memorystore.Store {
	t.Helper()
	return testkit.Opened(memorystore.New(c))(t)
}

// Parse returns the policies in a YAML configuration.
func Parse(t testing.TB, text string) *policy.Set {
	t.Helper()
	return testkit.Must(config.Parse("test.yaml", []byte(text)))(t).Set
}

// New returns a guard that uses the given store and the policies in a YAML configuration. Unless c
// has a Logger, the guard logs nothing.
func New(t testing.TB, store stint.Store, text string, c policy.GuardConfig) *policy.Guard {
	t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return testkit.Must(policy.NewGuard(store, Parse(t, text), c))(t)
}
