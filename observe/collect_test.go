package observe_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/resilience"
)

// scrape returns what Prometheus would be told.
func scrape(t testing.TB, m *observe.Monitor) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(m); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(
		w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// wantScrape wants lines in what Prometheus would be told, each after the prefix stint_, and returns
// all of it.
func wantScrape(t testing.TB, m *observe.Monitor, lines ...string) string {
	t.Helper()
	text := scrape(t, m)
	for _, want := range lines {
		if !strings.Contains(text, "\nstint_"+want+"\n") {
			t.Errorf("there is no line stint_%s in\n%s", want, text)
		}
	}
	return text
}

// busy returns a monitor that has heard of everything there is to hear of.
func busy(t testing.TB) *observe.Monitor {
	t.Helper()
	m, g := watched(t, manyReasons)
	ask(t, g, 10, get("/search"))
	for _, op := range []string{"take", "amend", "command", "ping", "dance"} {
		m.Observe(t.Context(), &resilience.StoreCall{Op: op, Requests: 3, Took: time.Millisecond})
		m.Observe(t.Context(), &resilience.StoreCall{Op: op, Requests: 1, Took: 20 * time.Millisecond, Err: timeout()})
	}
	m.Observe(t.Context(), &resilience.BreakerChange{From: "closed", To: "open"})
	m.Observe(t.Context(), &resilience.BreakerChange{From: "open", To: "closed"})
	m.Observe(t.Context(), &outbound.Call{API: "igdb", Wait: 30 * time.Millisecond})
	m.Observe(t.Context(), &outbound.Cooldown{API: "igdb", For: time.Second})
	m.WatchOutbound(func() []outbound.Stats { return []outbound.Stats{{Name: "igdb", Waiting: 4}} })
	m.Reloaded("policies", config.Reload{Changed: true, At: time.Unix(1_700_000_000, 5e8),
		InForce: reload.InForce{Fingerprint: "3fa9c1d2", Expires: time.Unix(1_800_000_000, 0)}})
	m.Reloaded("policies", observe.Reload{Err: errors.New("a mistake"), At: time.Unix(1_700_000_001, 0)})
	return m
}

func TestScrape(t *testing.T) {
	text := wantScrape(t, busy(t),
		`decisions_total{outcome="allowed",policy="search",reason="within",tier="anyone"} 3`,
		`decisions_total{outcome="denied",policy="search",reason="ban",tier="anyone"} 5`,
		`decision_duration_seconds_count 10`,
		`store_call_duration_seconds_bucket{op="take",le="0.001"} 1`,
		`store_call_duration_seconds_bucket{op="take",le="0.025"} 2`,
		`store_call_duration_seconds_sum{op="take"} 0.021`,
		`store_call_duration_seconds_count{op="other"} 2`,
		`store_errors_total{kind="timeout",op="take"} 1`,
		`store_requests_total 20`,
		`breaker_state{state="closed"} 1`,
		`breaker_state{state="open"} 0`,
		`outbound_calls_total{api="igdb",outcome="allowed"} 1`,
		`outbound_wait_seconds_sum{api="igdb"} 0.03`,
		`outbound_waiting{api="igdb"} 4`,
		`outbound_cooldowns_total{api="igdb"} 1`,
		`log_dropped_total 0`,
		`config_reloads_total{result="refused",source="policies"} 1`,
		`config_last_reload_success{source="policies"} 0`,
		`config_last_reload_timestamp_seconds{source="policies"} 1.7000000005e+09`,
	)
	if !strings.Contains(text, `stint_build_info{goversion="go`) || !strings.Contains(text, `version="v1.2.3"} 1`) {
		t.Error("there is no version")
	}
	if strings.Contains(text, `tier="outbound"`) {
		t.Error("calls to other APIs are among the decisions")
	}
}

// TestLogDropped: the log's own count is a metric, and its growth an alert.
func TestLogDropped(t *testing.T) {
	m := open(t, observe.Config{LogDropped: func() int64 { return 6 }})
	testkit.Eventually(t, "it is counted and the alert fires", func() bool {
		text := scrape(t, m)
		return strings.Contains(text, "stint_log_dropped_total 6\n") &&
			strings.Contains(text, `stint_alert{name="LogDropped"} 1`)
	})
}

// TestPromtool: the linter of Prometheus has nothing to say.
func TestPromtool(t *testing.T) {
	if testing.Short() {
		t.Skip("needs promtool: make test runs it")
	}
	m := busy(t)
	m.Observe(t.Context(), &outbound.Call{API: `a "quoted" \ name` + "\xff\n"})
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(scrape(t, m))
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}
