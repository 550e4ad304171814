package e2e

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/redisstore/goredis"
)

// TestD1bGoRedisClient: a program passes its own go-redis client, and shares the limit with one
// that has a URL. The client stays usable and open.
func TestD1bGoRedisClient(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "hunter2")
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "hunter2", DB: 2})
	defer client.Close()
	theirs, err := goredis.Open(t.Context(), client, redisstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	byURL, err := redisstore.Open(t.Context(), redisstore.Config{URL: server.URL() + "/2"})
	if err != nil {
		t.Fatal(err)
	}
	defer byURL.Close()
	allowed := 0
	for i := range 20 {
		lim, err := stint.New([]stint.Store{theirs, byURL}[i%2], stint.PerHour(10))
		if err != nil {
			t.Fatal(err)
		}
		d, err := lim.Allow(t.Context(), "user:42")
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			allowed++
		}
	}
	if allowed != 10 {
		t.Errorf("%d of 20 were allowed, want 10", allowed)
	}
	if err := theirs.Close(); err != nil {
		t.Error(err)
	}
	if n, err := client.Exists(t.Context(), "stint:{user:42}:limits").Result(); n != 1 || err != nil {
		t.Errorf("the key through the caller's client: %d, %v", n, err)
	}
}
