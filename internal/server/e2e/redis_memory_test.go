package e2e

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/server"
)

// TestRedisMemoryNearlyFull: a Redis whose memory is nearly full is reported before it is full.
func TestRedisMemoryNearlyFull(t *testing.T) {
	redis := redistest.Start(t, "--maxmemory", "16mb", "--maxmemory-policy", "noeviction")
	r := start(t, five, func(c *server.Config) {
		c.Store, c.Observe.Alerts = redis.URL(), observe.AlertConfig{For: time.Second}
	})
	testkit.Eventually(t, "Redis has told how full it is", func() bool {
		return r.metric("stint_redis_memory_share") > 0
	})
	fires := func() bool { return r.metric("stint_alert", `name="RedisMemory"`) == 1 }
	if fires() {
		t.Error("it fires, although there is room")
	}
	// In steps that are smaller than what is left above the threshold.
	fill := "local n = 0 while true do " +
		"local used = tonumber(string.match(redis.call('INFO', 'memory'), 'used_memory:(%d+)')) " +
		"if used > 0.93 * 16 * 1048576 then return n end " +
		"redis.call('SET', KEYS[1] .. n, string.rep('x', 50000)) n = n + 1 end"
	redis.CLI(t, "EVAL", fill, "1", "ballast:")
	testkit.Eventually(t, "RedisMemory fires", fires)
	if !r.take("42") {
		t.Error("Redis is full already")
	}
}
