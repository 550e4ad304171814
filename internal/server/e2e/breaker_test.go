package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

// metric adds up the values of the metrics whose name and labels contain the texts.
func (r *rig) metric(name string, labels ...string) (sum float64) {
	r.t.Helper()
	_, text := fetch(r.t, http.MethodGet, r.admin+"/metrics", "")
lines:
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if at, _, _ := strings.Cut(series, "{"); at != name {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(series, label) {
				continue lines
			}
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			r.t.Fatalf("%s: %v", line, err)
		}
		sum += n
	}
	return sum
}

func (r *rig) breakerIs(state string) bool {
	r.t.Helper()
	return r.metric("stint_breaker_state", fmt.Sprintf("state=%q", state)) == 1
}

// TestBreakerIsConfigurable: the settings of the configuration or of flags are in force, and the
// breaker tries again after the time that they say. Package resilience tests how many failures open it.
func TestBreakerIsConfigurable(t *testing.T) {
	redis := redistest.Start(t)
	const policies = "tiers:\n  - {name: all, identity: [user, ip], limits: 1000/1h}\n" +
		"failure: {instances: 1, breaker: {failures: 2, probe: 20ms, retry: 1m}}\n"
	store := func(c *server.Config) { c.Store = redis.URL() }
	byFile, byFlag := start(t, policies, store), start(t, policies, store, func(c *server.Config) {
		c.BreakerFailures, c.BreakerProbe, c.BreakerRetry = 3, 24*time.Hour, 48*time.Hour
	})
	type settings struct {
		Failures int
		Probe    float64 `json:"probe_seconds"`
		Retry    float64 `json:"retry_seconds"`
	}
	for r, want := range map[*rig]settings{byFile: {2, 0.02, 60}, byFlag: {3, 86400, 172800}} {
		var config struct {
			Store struct {
				Settings settings `json:"breaker_settings"`
			}
		}
		_, text := fetch(t, http.MethodGet, r.admin+"/config", "")
		if err := json.Unmarshal([]byte(text), &config); err != nil || config.Store.Settings != want {
			t.Errorf("in force is %+v, want %+v (%v)", config.Store.Settings, want, err)
		}
		testkit.Eventually(t, "Redis decides", func() bool { return r.take("42") && r.breakerIs("closed") })
	}

	redis.Kill()
	for _, r := range []*rig{byFile, byFlag} {
		testkit.Eventually(t, "the breaker is open", func() bool { r.take("42"); return r.breakerIs("open") })
	}
	redis.Restart(t)
	testkit.Eventually(t, "the breaker that pings often is closed", func() bool { return byFile.breakerIs("closed") })
	if !byFlag.breakerIs("open") || byFlag.metric("stint_store_call_duration_seconds_count", `op="ping"`) != 0 {
		t.Error("the breaker that is to ping after a day has done so")
	}
}
