package server

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestRedis shares limits between two servers.
func TestRedis(t *testing.T) {
	redis := redistest.Start(t)
	before := runtime.NumGoroutine()
	c := everywhere(t)
	c.Store = redis.URL()
	put(t, c.Policies, patient+three)
	first, second := start(t, c), start(t, c)
	var got []int
	for range 3 {
		for _, r := range []*running{first, second} {
			status, _ := r.take("")
			got = append(got, status)
		}
	}
	for n, status := range got {
		if want := map[bool]int{true: 200, false: 429}[n < 3]; status != want {
			t.Errorf("got %v, want three of 200", got)
			break
		}
	}
	testkit.Eventually(t, "two instances", func() bool {
		_, body := first.get(Admin, "/config", "")
		return strings.Contains(body, `"instances": 2`)
	})
	if keys := redistest.KeysWithoutTTL(t, redis); len(keys) > 0 {
		t.Errorf("keys without a TTL: %v", keys)
	}
	for _, r := range []*running{first, second} {
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	redistest.CheckGoroutines(t, before)
}

// TestRedisComesLate serves before Redis is there, or answers, and uses it when it does.
func TestRedisComesLate(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		redis := redistest.Start(t)
		redis.Kill()
		comesLate(t, redis, func() { redis.Restart(t) })
	})
	t.Run("silent", func(t *testing.T) {
		redis := redistest.Start(t)
		redis.Pause(t)
		comesLate(t, redis, func() { redis.Resume(t) })
	})
}

func comesLate(t *testing.T, redis *redistest.Server, come func()) {
	before := runtime.NumGoroutine()
	c := everywhere(t)
	c.Store = redis.URL()
	r := start(t, c)
	if status, _ := r.get(HTTP, "/readyz", ""); status != 200 {
		t.Errorf("readiness: got %d, want 200", status)
	}
	// Not one request is lost, and the limit is obeyed.
	for n, want := range []int{200, 200, 200, 429} {
		if status, body := r.take(""); status != want || !strings.Contains(body, `"degraded":true`) {
			t.Errorf("take %d: got %d, %s; want %d, degraded", n+1, status, body, want)
		}
	}
	come()
	testkit.Eventually(t, "decided by Redis",
		func() bool { _, body := r.take(""); return !strings.Contains(body, `"degraded":true`) })
	testkit.Eventually(t, "the breaker is closed", func() bool {
		_, body := r.get(Admin, "/config", "")
		return strings.Contains(body, `"breaker": "closed"`)
	})
	testkit.Eventually(t, "the log says so",
		func() bool { return strings.Contains(r.log.String(), "the store can be asked again") })
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	redistest.CheckGoroutines(t, before)
}

// TestRedisNeverComes can be stopped while it still tries.
func TestRedisNeverComes(t *testing.T) {
	redis := redistest.Start(t)
	redis.Kill()
	c := everywhere(t)
	c.Store = redis.URL()
	r := start(t, c)
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestStoreOfThePolicies is used unless the Config names another.
func TestStoreOfThePolicies(t *testing.T) {
	redis := redistest.Start(t, "--requirepass", "secret")
	c := Config{Admin: anywhere, Policies: filepath.Join(t.TempDir(), "stint.yaml")}
	put(t, c.Policies, "store: {url: '"+redis.URL()+"', prefix: mine}\n"+three)
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

func TestStoreMistakes(t *testing.T) {
	for _, url := range []string{"redis://host:port:1/", "ftp://localhost", "redis://localhost/x",
		"redis://:secret@local host/"} {
		s, err := New(Config{Admin: anywhere, Store: url, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "redis://") ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want what a URL is", url, err)
		}
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
