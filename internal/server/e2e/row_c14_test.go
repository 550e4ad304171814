package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/eventually"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/server"
)

// alertOf returns an alert of a monitor.
func alertOf(t *testing.T, m *observe.Monitor, name string) observe.Alert {
	t.Helper()
	all := m.Status(0).Alerts
	i := slices.IndexFunc(all, func(a observe.Alert) bool { return a.Name == name })
	if i < 0 {
		t.Fatalf("there is no alert %s among %+v", name, all)
	}
	return all[i]
}

// C14: the share of denials of the last minute is compared with that of the hour before. It fires
// for a jump, neither at the start nor for a few requests.
func TestC14DenialsJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := observe.New(observe.Config{})
		defer m.Close()
		second := func(allowed, denied int) {
			for i := range allowed + denied {
				m.Observe(t.Context(), &policy.Verdict{Decision: stint.Decision{Allowed: i < allowed}})
			}
			time.Sleep(time.Second)
		}
		state := func() string { return alertOf(t, m, "DenialJump").State }
		for range 30 {
			second(0, 10) // everybody is denied from the start: there is nothing to compare with
		}
		for range 20 * 60 {
			second(10, 0)
			if state() != "ok" {
				t.Fatal("it fires, although hardly anybody is denied")
			}
		}
		for range 60 {
			second(10, 0)
		}
		for range 30 {
			second(5, 5)
		}
		if state() != "firing" {
			t.Errorf("it does not fire at %+v", alertOf(t, m, "DenialJump"))
		}
		for range 3 * 60 {
			second(10, 0)
		}
		if state() != "ok" {
			t.Error("it does not end")
		}
		for range 20 * 60 {
			second(1, 0)
		}
		for range 60 {
			second(0, 1)
		}
		if state() != "ok" {
			t.Error("it fires for a few requests")
		}
	})
}

// quickly has alerts fire after a second instead of a minute, with some thresholds.
func quickly(store string, thresholds map[string]float64) func(*server.Config) {
	return func(c *server.Config) {
		c.Store = store
		c.Observe.Alerts = observe.AlertConfig{For: time.Second, Thresholds: thresholds}
	}
}

// fires reports whether an alert of the server fires.
func (r *rig) fires(alert string) bool {
	r.t.Helper()
	return strings.Contains(get(r.t, r.admin+"/metrics"), `stint_alert{name="`+alert+`"} 1`)
}

func get(t *testing.T, url string) string {
	t.Helper()
	return (&serving{t: t}).get(url)
}

// C14: a Redis whose memory is nearly full is reported before it is full.
func TestC14RedisMemoryNearlyFull(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, "--maxmemory", "16mb", "--maxmemory-policy", "noeviction")
	r := start(t, five, quickly(redis.URL(), nil))
	eventually.True(t, "Redis has told how full it is", func() bool {
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
	eventually.True(t, "RedisMemory fires", func() bool { return r.fires("RedisMemory") })
	if !r.take("42") {
		t.Error("Redis is full already")
	}
}

// C14: a Redis that is busy is reported. The threshold is low, so that a busy machine does not
// matter.
func TestC14RedisCPUNearlyFull(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	r := start(t, five, quickly(redis.URL(), map[string]float64{"RedisCPU": 0.03}))
	eventually.True(t, "Redis has told how busy it is", func() bool {
		return strings.Contains(get(r.t, r.admin+"/metrics"), "stint_redis_cpu_share 0.00")
	})
	if r.fires("RedisCPU") {
		t.Error("it fires, although there is nothing to do")
	}
	done, busy := make(chan struct{}), sync.WaitGroup{}
	defer busy.Wait()
	defer close(done)
	busy.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_, _ = redis.Do("EVAL", "for i = 1, 20000 do redis.call('TIME') end", "0") // it ends with the test
			}
		}
	})
	eventually.True(t, "RedisCPU fires", func() bool { return r.fires("RedisCPU") })
}
