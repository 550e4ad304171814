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

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

// A monitor is given to the guard and registered with Prometheus.
func Example() {
	monitor, err := observe.New(observe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer monitor.Close()
	prometheus.MustRegister(monitor)
	decide(5, monitor) // a guard with policy.GuardConfig{Observer: monitor}

	w := httptest.NewRecorder()
	promhttp.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "stint_decisions_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// stint_decisions_total{outcome="allowed",policy="",reason="within",tier="anyone"} 2
	// stint_decisions_total{outcome="denied",policy="",reason="limit",tier="anyone"} 3
}

// Top lists who was denied most in the last eight to ten minutes. Subjects are shortened unless
// ShowSubjects is set.
func ExampleMonitor_Top() {
	monitor, err := observe.New(observe.Config{ShowSubjects: true})
	if err != nil {
		log.Fatal(err)
	}
	defer monitor.Close()
	decide(5, monitor)
	for _, o := range monitor.Top("ip", 10) {
		fmt.Println(o.Subject, "denied", o.Denied)
	}
	// Output:
	// ip:203.0.113.9 denied 3
}

// decide has a guard decide requests from one address, which may make two a minute.
func decide(requests int, observer stint.Observer) {
	set, err := policy.New(policy.Spec{Tiers: []policy.Tier{
		{Name: "anyone", Identity: []string{"ip"}, Limits: policy.Limits(stint.PerMinute(2))},
	}})
	if err != nil {
		log.Fatal(err)
	}
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	quiet := slog.New(slog.DiscardHandler)
	guard, err := policy.NewGuard(store, set, policy.GuardConfig{Observer: observer, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	for range requests {
		in := policy.Input{Path: "/", Peer: netip.MustParseAddr("203.0.113.9")}
		if err := guard.Decide(context.Background(), &in, new(policy.Verdict)); err != nil {
			log.Fatal(err)
		}
	}
}
