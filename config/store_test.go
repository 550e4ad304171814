package config_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/stores"
)

const storeRules = "tiers: [{name: all, identity: ip, limits: 10/1m}]\n"

// openStore opens the store of a configuration, which is closed with the test.
func openStore(t *testing.T, text string, with stores.Config) (stores.Store, error) {
	t.Helper()
	c := testkit.Must(config.Parse("stint.yaml", []byte(storeRules+text)))(t)
	store, err := c.OpenStore(t.Context(), with)
	if err == nil {
		t.Cleanup(func() { store.Close() })
	}
	return store, err
}

// TestOpenStoreInRedis: what a configuration says about its store holds for programs in Go: TLS
// files, prefix, name key, failure mode.
func TestOpenStoreInRedis(t *testing.T) {
	redis := redistest.StartTLS(t)
	ca, _ := redis.CertificateFiles()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("a name key of more than 32 bytes of text"), 0o644); err != nil {
		t.Fatal(err)
	}
	text := "store: {url: '" + redis.URL() + "', prefix: shop, ca_file: " + ca + ", name_key_file: " + key + "}\n" +
		"failure: {mode: deny, budget: 10s}\n"
	var log testkit.Buffer
	with := stores.Config{Redis: redisstore.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	store := testkit.Must(openStore(t, text, with))(t)
	claim := stint.Claim{Subject: "user:alice", Limits: []stint.Limit{stint.PerHour(10)}, Cost: 1}
	if d, err := store.Take(t.Context(), stint.Request{Claims: []stint.Claim{claim}}); err != nil || d.Degraded {
		t.Fatalf("got %+v, %v; want a decision of Redis", d, err)
	}
	if keys := redis.CLI(t, "KEYS", "*"); !strings.Contains(keys, "shop:{user#") || strings.Contains(keys, "alice") {
		t.Errorf("keys %s, want the prefix, and no name", keys)
	}
	if !strings.Contains(log.String(), "name key") {
		t.Errorf("logged %q, want that everyone can read the key", &log)
	}
	redis.Kill()
	if d, err := store.Take(t.Context(), stint.Request{Claims: []stint.Claim{claim}}); err != nil || d.Allowed ||
		!d.Unavailable {
		t.Errorf("without Redis: got %+v, %v; want a denial", d, err)
	}
}

// TestOpenStoreClient: a Redis that the program names is used, and not the memory that is the
// default of a configuration.
func TestOpenStoreClient(t *testing.T) {
	server := redistest.Start(t)
	adjust := func(o *rueidis.ClientOption) { o.InitAddress = []string{server.Addr()} }
	client := testkit.Must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}}))(t)
	t.Cleanup(client.Close)
	for name, redis := range map[string]redisstore.Config{
		"client": {Client: client}, "address": {AdjustClient: adjust},
	} {
		store := testkit.Must(openStore(t, "store: {prefix: "+name+"}\n", stores.Config{Redis: redis}))(t)
		if _, ok := store.(*memorystore.Store); ok {
			t.Errorf("%s: counts in memory", name)
		}
		if _, err := openStore(t, "store: {ca_file: a}\n", stores.Config{Redis: redis}); err == nil {
			t.Errorf("%s: certificates are ignored", name)
		}
	}
}

// TestOpenStoreMistakes: what cannot be used is not left out.
func TestOpenStoreMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"store: {name_key_file: /none}\n":                             "store.name_key_file needs Redis, but the store is in memory; set the URL of a Redis server in store.url",
		"store: {ca_file: /none}\n":                                   "store.ca_file and store.cert_file need Redis",
		"store: {url: 'redis://127.0.0.1:1', name_key_file: /none}\n": "store.name_key_file: ",
	} {
		store, err := openStore(t, text, stores.Config{})
		if err == nil || store != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v; want %s", text, store, err, want)
		}
	}
}

// TestOpenStoreAway: the breaker and the number of instances are those of the configuration.
func TestOpenStoreAway(t *testing.T) {
	quiet := resilience.Config{Logger: slog.New(slog.DiscardHandler)}
	const text = "store: {url: 'redis://127.0.0.1:1'}\n" +
		"failure: {mode: error, instances: 7, breaker: {failures: 2, retry: 1h}}\n"
	store := testkit.Must(openStore(t, text, stores.Config{Resilience: quiet}))(t)
	for range 2 {
		_, _ = store.Take(context.Background(), stint.Request{
			Claims: []stint.Claim{{Subject: "a", Limits: []stint.Limit{stint.PerHour(10)}, Cost: 1}}})
	}
	if state := store.(interface {
		Breaker() resilience.BreakerState
	}).Breaker(); state != resilience.BreakerOpen {
		t.Errorf("the breaker is %s after two failures, want open", state)
	}
	if n := store.(interface{ Instances() int }).Instances(); n != 7 {
		t.Errorf("%d instances, want 7", n)
	}
}
