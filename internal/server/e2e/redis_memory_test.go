package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/server"
)

// fires reports whether an alert of the server fires.
func (r *rig) fires(alert string) bool {
	r.t.Helper()
	return strings.Contains(get(r.t, r.admin+"/metrics"), `stint_alert{name="`+alert+`"} 1`)
}

func get(t *testing.T, url string) string {
	t.Helper()
	return (&serving{t: t}).get(url)
}

// TestRedisMemoryNearlyFull: a Redis whose memory is nearly full is reported before it is full.
func TestRedisMemoryNearlyFull(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, "--maxmemory", "16mb", "--maxmemory-policy", "noeviction")
	r := start(t, five, func(c *server.Config) {
		c.Store, c.Observe.Alerts = redis.URL(), observe.AlertConfig{For: time.Second}
	})
	testkit.Eventually(t, "Redis has told how full it is", func() bool {
		return strings.Contains(get(r.t, r.admin+"/metrics"), "stint_redis_memory_share 0.")
	})
	if r.fires("RedisMemory") {
		t.Error("it fires, although there is room")
	}
	// In steps that are smaller than what is left above the threshold.
	fill := "local n = 0 while true do " +
		"local used = tonumber(string.match(redis.call('INFO', 'memory'), 'used_memory:(%d+)')) " +
		"if used > 0.93 * 16 * 1048576 then return n end " +
		"redis.call('SET', KEYS[1] .. n, string.rep('x', 50000)) n = n + 1 end"
	redis.CLI(t, "EVAL", fill, "1", "ballast:")
	testkit.Eventually(t, "RedisMemory fires", func() bool { return r.fires("RedisMemory") })
	if !r.take("42") {
		t.Error("Redis is full already")
	}
}
