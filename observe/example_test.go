package observe_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

// A monitor is given to the guard, and registered with Prometheus.
func Example() {
	quiet := slog.New(slog.DiscardHandler)
	monitor := observe.New(observe.Config{Logger: quiet})
	defer monitor.Close()

	conf, err := config.Parse("stint.yaml", []byte(`
tiers: [{name: anonymous, identity: ip, limits: 100/1m}]
policies: [{name: login, match: {path: /login}, limits: 2/15m}]
`))
	if err != nil {
		log.Fatal(err)
	}
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	guard, err := policy.NewGuard(store, conf.Set, policy.GuardConfig{Observer: monitor, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(monitor)
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{}) // serve it at /metrics

	for range 5 {
		in, v := policy.Input{Method: "POST", Path: "/login", Peer: netip.MustParseAddr("192.0.2.1")}, policy.Verdict{}
		if err := guard.Decide(context.Background(), &in, &v); err != nil {
			log.Fatal(err)
		}
	}
	w := httptest.NewRecorder()
	metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "stint_decisions_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// stint_decisions_total{outcome="allowed",policy="login",reason="within",tier="anonymous"} 2
	// stint_decisions_total{outcome="denied",policy="login",reason="limit",tier="anonymous"} 3
}
