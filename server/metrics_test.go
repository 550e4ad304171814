package server

import (
	"context"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// counted reports whether Prometheus gets all lines.
func (r *running) counted(lines ...string) bool {
	_, body := r.get(Admin, "/metrics", "")
	for _, line := range lines {
		if !strings.Contains(body, "\n"+line+"\n") {
			return false
		}
	}
	return true
}

// TestMetrics: every decision is counted once, whichever part makes it.
func TestMetrics(t *testing.T) {
	c := everywhere(t)
	r := start(t, c)
	for range 4 {
		r.take("")
	}
	send(t, http.MethodPost, r.url(HTTP, "/v1/take"), `{"subject":"ip:192.0.2.7","tier":"all"}`)
	conn := r.dial()
	for range 5 {
		if _, err := ask(context.Background(), conn, "7"); err != nil {
			t.Fatal(err)
		}
	}
	testkit.WriteFile(t, c.Policies, "tiers: [{]")
	testkit.Eventually(t, "that the change is refused", func() bool { return r.counted(`stint_config_last_reload_success{source="policies"} 0`) })
	for _, line := range []string{
		`stint_decisions_total{outcome="allowed",policy="",reason="within",tier="all"} 4`,
		`stint_decisions_total{outcome="denied",policy="",reason="limit",tier="all"} 1`,
		`stint_decisions_total{outcome="allowed",policy="test.user",reason="within",tier="envoy"} 3`,
		`stint_decisions_total{outcome="denied",policy="test.user",reason="limit",tier="envoy"} 2`,
		`stint_decision_duration_seconds_count 10`,
		`stint_config_reloads_total{result="changed",source="policies"} 1`,
		`stint_config_reloads_total{result="refused",source="policies"} 1`,
		`stint_config_last_reload_success{source="envoy"} 1`,
		`stint_store_up 1`,
	} {
		if !r.counted(line) {
			t.Errorf("there is no line %s", line)
		}
	}
	_, body := r.get(Admin, "/metrics", "")
	if testing.Short() {
		return // what follows needs promtool: make test runs it
	}
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(body)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	if t.Failed() {
		t.Log(body)
	}
}

// TestF33Metrics: a listener of their own needs no token, and has nothing else but probes. On the
// admin listener they need one: see TestF33AdminToken.
func TestF33Metrics(t *testing.T) {
	r := start(t, withOperator(t, Config{Admin: anywhere, Metrics: anywhere}))
	for path, want := range map[string]int{
		"/metrics": http.StatusOK, "/livez": http.StatusOK, "/readyz": http.StatusOK,
		"/": http.StatusNotFound, "/config": http.StatusNotFound, "/api/overview": http.StatusNotFound,
		"/debug/pprof/": http.StatusNotFound, "/metrics/": http.StatusNotFound,
	} {
		status, body := r.get(Metrics, path, "")
		if status != want || (path == "/metrics") != strings.Contains(body, "stint_build_info") {
			t.Errorf("%s on the listener for metrics: got %d, %s; want %d", path, status, body, want)
		}
	}
}
