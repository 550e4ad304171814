package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
)

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
	first, second := start(t, hashing(t, redis, keyA)), start(t, hashing(t, redis, keyA))
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

// TestNameKeyInMemory: a name key without a Redis is a mistake, unless a flag says that the store
// is in memory.
func TestNameKeyInMemory(t *testing.T) {
	c := everywhere(t)
	put(t, c.Policies, "store: {name_key_file: name.key}\n"+three)
	if text := cannotStart(t, c); !strings.Contains(text, "store.name_key_file needs Redis") {
		t.Error(text)
	}
	c.Store = memoryStore
	start(t, c)
}

// TestWrongNameKeyLate: Redis is away at the start, and turns out to be of another name key.
// Nothing is ever decided there, until the key is right.
func TestWrongNameKeyLate(t *testing.T) {
	redis := redistest.Start(t)
	other, err := redisstore.Open(t.Context(), redisstore.Config{URL: redis.URL(), NameKeys: [][]byte{[]byte(keyB)}})
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	redis.Pause(t)
	r := start(t, hashing(t, redis, keyA))
	redis.Resume(t)
	testkit.Eventually(t, "the log says why", func() bool { return strings.Contains(r.log.String(), "name key mismatch") })
	for n, want := range []int{200, 200, 200, 429} {
		if status, body := r.take(""); status != want || !strings.Contains(body, `"degraded":true`) {
			t.Errorf("take %d: got %d, %s; want %d, degraded", n+1, status, body, want)
		}
	}
	if keys := redis.CLI(t, "KEYS", "*:limits"); keys != "" {
		t.Errorf("keys %s; want no counts", keys)
	}
	redis.CLI(t, "DEL", "stint:names")
	testkit.Eventually(t, "decided by Redis",
		func() bool { _, body := r.take(""); return !strings.Contains(body, `"degraded":true`) })
}

// TestNameKeyChanges: a reload says that a name key is used after the next start only, also if a
// flag names the store.
func TestNameKeyChanges(t *testing.T) {
	redis := redistest.Start(t)
	c := hashing(t, redis, keyA)
	c.Store = redis.URL()
	r := start(t, c)
	put(t, c.Policies, "store: {url: 'redis://elsewhere', name_key_file: keys/name.key}\n"+five)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(r.log.String(), "certificate or name key") {
		t.Error("it warns of a store that is not used")
	}
	put(t, c.Policies, "store: {name_key_file: keys/new.key, previous_name_key_file: keys/name.key}\n"+five)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.log.String(), "certificate or name key; it takes effect at the next start") {
		t.Errorf("logged %s", r.log)
	}
}

// TestStoreOptions warns of keys that everybody can read.
func TestStoreOptions(t *testing.T) {
	redis := redistest.Start(t)
	c := hashing(t, redis, keyA)
	file := filepath.Join(filepath.Dir(c.Policies), "keys", "name.key")
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		var log testkit.Buffer
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), `of="name key"`); got != want {
			t.Errorf("%o: warned %t, want %t", mode, got, want)
		}
	}
}
