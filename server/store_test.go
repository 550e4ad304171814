package server

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestStoreOfThePolicies is used unless the Config names another.
func TestStoreOfThePolicies(t *testing.T) {
	redis := redistest.Start(t, "--requirepass", "secret")
	c := Config{Admin: anywhere,
		Policies: testkit.TempFile(t, "stint.yaml", "store: {url: '"+redis.URL()+"', prefix: mine}\n"+three)}
	_, body := start(t, c).get(Admin, "/config", "")
	if want := `"name": "redis://:xxxxx@` + redis.Addr() + `"`; !strings.Contains(body, want) ||
		strings.Contains(body, "secret") {
		t.Errorf("got %s, want %s", body, want)
	}
	c.Store = memoryStore
	start(t, c).wantGet(Admin, "/config", "", 200, `"name": "memory"`)
}

// TestStorePrefix: the prefix of the Config goes before that of the policies, whatever becomes of
// theirs, and may have colons.
func TestStorePrefix(t *testing.T) {
	redis := redistest.Start(t)
	c := everywhere(t)
	c.Store, c.StorePrefix = redis.URL(), "eg:rl:"
	testkit.WriteFile(t, c.Policies, "store: {prefix: mine}\n"+patient+three)
	r := start(t, c)
	r.wantTake("", http.StatusOK, "")
	if keys := redis.CLI(t, "KEYS", "*"); !strings.Contains(keys, "eg:rl::{ip:192.0.2.1}:") ||
		strings.Contains(keys, "mine") || strings.Contains(keys, "stint") {
		t.Errorf("keys %s; want them to begin with eg:rl:", keys)
	}
	testkit.WriteFile(t, c.Policies, "store: {prefix: other}\n"+patient+five)
	r.wantReload("")
	if strings.Contains(r.log.String(), "at the next start") {
		t.Errorf("it warns of a prefix that is not used: %s", r.log)
	}
}

// TestStoreMemory: the cap of the flag holds, or else that of the policies.
func TestStoreMemory(t *testing.T) {
	for name, set := range map[string]func(*Config){
		"flag":     func(c *Config) { c.StoreMemory = 1 << 20 },
		"policies": func(c *Config) { testkit.WriteFile(t, c.Policies, "store: {memory: 1MiB}\n"+three) },
		"both": func(c *Config) {
			c.StoreMemory = 1 << 20
			testkit.WriteFile(t, c.Policies, "store: {memory: 1GiB}\n"+three)
		},
	} {
		c := everywhere(t)
		set(&c)
		if !start(t, c).counted("stint_memory_max_bytes 1.048576e+06") {
			t.Errorf("%s: the cap is not 1 MiB", name)
		}
	}
}

// TestBreakerSettings: those of flags go before those of the policies.
func TestBreakerSettings(t *testing.T) {
	c := everywhere(t)
	c.Store = "redis://127.0.0.1:1"
	testkit.WriteFile(t, c.Policies, three+"failure: {breaker: {failures: 2, probe: 20ms, retry: 1m}}\n")
	flags := c
	flags.BreakerFailures, flags.BreakerProbe, flags.BreakerRetry = 3, 24*time.Hour, 48*time.Hour
	for want, c := range map[string]Config{
		`{"failures":2,"probe_seconds":0.02,"retry_seconds":60}`: c, `{"failures":3,"probe_seconds":86400,"retry_seconds":172800}`: flags,
	} {
		_, body := start(t, c).get(Admin, "/config", "")
		if body = strings.Join(strings.Fields(body), ""); !strings.Contains(body, `"breaker_settings":`+want) {
			t.Errorf("got %s, want %s", body, want)
		}
	}
}

const (
	keyA = "a name key of more than 32 bytes, the first"
	keyB = "a name key of more than 32 bytes, the second"
)

// hashing is a Config over a Redis with a name key, which is in a file beside the policies.
func hashing(t *testing.T, redis *redistest.Server, key string) Config {
	t.Helper()
	c := everywhere(t)
	testkit.WriteFile(t, c.Policies, "store: {url: '"+redis.URL()+"', name_key_file: keys/name.key}\n"+patient+three)
	testkit.WriteFile(t, keyOf(&c), key+"\n")
	return c
}

// keyOf is the file of the name key.
func keyOf(c *Config) string { return filepath.Join(filepath.Dir(c.Policies), "keys", "name.key") }

// cannotStart has a server refuse to start, with an error that says so.
func cannotStart(t *testing.T, c Config, texts ...string) {
	t.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	s, err := New(c)
	if err == nil {
		err = s.Start(t.Context())
	}
	if err == nil {
		_ = s.Stop(t.Context())
		t.Fatal("it has started")
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
}

// TestNameKeyFile: servers with the same name key share limits, no address is in Redis, and a
// server with another key, or without one, refuses to start.
func TestNameKeyFile(t *testing.T) {
	redis := redistest.Start(t)
	readable := hashing(t, redis, keyA)
	if err := os.Chmod(keyOf(&readable), 0o644); err != nil {
		t.Fatal(err)
	}
	first, second := start(t, hashing(t, redis, keyA)), start(t, readable)
	for r, want := range map[*running]bool{first: false, second: true} {
		if got := strings.Contains(r.log.String(), `of="name key"`); got != want {
			t.Errorf("warned of a key that everyone can read: %t, want %t", got, want)
		}
	}
	for n, want := range []int{200, 200, 200, 429} {
		if status, _ := []*running{first, second}[n%2].take(""); status != want {
			t.Errorf("take %d: got %d, want %d", n+1, status, want)
		}
	}
	if keys := redis.CLI(t, "KEYS", "*"); !strings.Contains(keys, "stint:{ip#") || strings.Contains(keys, "127.0.0.1") {
		t.Errorf("keys %s", keys)
	}
	none := everywhere(t)
	none.Store = redis.URL()
	gone := hashing(t, redis, keyA)
	_ = os.Remove(keyOf(&gone))
	cannotStart(t, hashing(t, redis, keyB), "name key mismatch")
	cannotStart(t, none, "this process has none", "store.name_key_file")
	cannotStart(t, gone, "store.name_key_file: ")
	cannotStart(t, hashing(t, redis, "short"), "has 5 bytes; want at least 32")
}
