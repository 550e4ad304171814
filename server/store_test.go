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
)

// TestStoreOfThePolicies is used unless the Config names another.
func TestStoreOfThePolicies(t *testing.T) {
	redis := redistest.Start(t, "--requirepass", "secret")
	c := Config{Admin: anywhere,
		Policies: file(t, "stint.yaml", "store: {url: '"+redis.URL()+"', prefix: mine}\n"+three)}
	_, body := start(t, c).get(Admin, "/config", "")
	if want := `"name": "redis://:xxxxx@` + redis.Addr() + `"`; !strings.Contains(body, want) ||
		strings.Contains(body, "secret") {
		t.Errorf("got %s, want %s", body, want)
	}
	c.Store = memoryStore
	if _, body := start(t, c).get(Admin, "/config", ""); !strings.Contains(body, `"name": "memory"`) {
		t.Errorf("got %s, want the store of the Config", body)
	}
}

// TestStorePrefix: the prefix of the Config goes before that of the policies, whatever becomes of
// theirs, and may have colons.
func TestStorePrefix(t *testing.T) {
	redis := redistest.Start(t)
	c := everywhere(t)
	c.Store, c.StorePrefix = redis.URL(), "eg:rl:"
	put(t, c.Policies, "store: {prefix: mine}\n"+patient+three)
	r := start(t, c)
	if status, body := r.take(""); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if keys := redis.CLI(t, "KEYS", "*"); !strings.Contains(keys, "eg:rl::{ip:192.0.2.1}:") ||
		strings.Contains(keys, "mine") || strings.Contains(keys, "stint") {
		t.Errorf("keys %s; want them to begin with eg:rl:", keys)
	}
	put(t, c.Policies, "store: {prefix: other}\n"+patient+five)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(r.log.String(), "at the next start") {
		t.Errorf("it warns of a prefix that is not used: %s", r.log)
	}
}

// TestStoreMemory: the cap of the flag holds, or else that of the policies.
func TestStoreMemory(t *testing.T) {
	for name, set := range map[string]func(*Config){
		"flag":     func(c *Config) { c.StoreMemory = 1 << 20 },
		"policies": func(c *Config) { put(t, c.Policies, "store: {memory: 1MiB}\n"+three) },
		"both": func(c *Config) {
			c.StoreMemory = 1 << 20
			put(t, c.Policies, "store: {memory: 1GiB}\n"+three)
		},
	} {
		c := everywhere(t)
		set(&c)
		if _, body := start(t, c).get(Admin, "/metrics", ""); !strings.Contains(body, "\nstint_memory_max_bytes 1.048576e+06\n") {
			t.Errorf("%s: the cap is not 1 MiB", name)
		}
	}
}

// TestBreakerSettings: those of flags go before those of the policies.
func TestBreakerSettings(t *testing.T) {
	c := everywhere(t)
	c.Store = "redis://127.0.0.1:1"
	put(t, c.Policies, three+"failure: {breaker: {failures: 2, probe: 20ms, retry: 1m}}\n")
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
	put(t, c.Policies, "store: {url: '"+redis.URL()+"', name_key_file: keys/name.key}\n"+patient+three)
	put(t, filepath.Join(filepath.Dir(c.Policies), "keys", "name.key"), key+"\n")
	return c
}

// cannotStart returns the error of a server that refuses to start.
func cannotStart(t *testing.T, c Config) string {
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
	return err.Error()
}

// TestNameKeyFile: servers with the same name key share limits, no address is in Redis, and a
// server with another key, or without one, refuses to start.
func TestNameKeyFile(t *testing.T) {
	redis := redistest.Start(t)
	readable := hashing(t, redis, keyA)
	if err := os.Chmod(filepath.Join(filepath.Dir(readable.Policies), "keys", "name.key"), 0o644); err != nil {
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
	if text := cannotStart(t, hashing(t, redis, keyB)); !strings.Contains(text, "name key mismatch") {
		t.Errorf("another key: %s", text)
	}
	none := everywhere(t)
	none.Store = redis.URL()
	if text := cannotStart(t, none); !strings.Contains(text, "this process has none") ||
		!strings.Contains(text, "store.name_key_file") {
		t.Errorf("no key: %s", text)
	}
	gone := hashing(t, redis, keyA)
	_ = os.Remove(filepath.Join(filepath.Dir(gone.Policies), "keys", "name.key"))
	if text := cannotStart(t, gone); !strings.Contains(text, "store.name_key_file: ") {
		t.Errorf("no file: %s", text)
	}
	if text := cannotStart(t, hashing(t, redis, "short")); !strings.Contains(text, "has 5 bytes; want at least 32") {
		t.Errorf("a short key: %s", text)
	}
}
