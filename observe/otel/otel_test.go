package otelstint

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/resilience"
)

func newGuard(t *testing.T, o stint.Observer) *policy.Guard {
	t.Helper()
	return guardtest.New(t, guardtest.Memory(t), `
tiers: [{name: anyone, identity: ip, limits: 9/1m}]
policies:
  - {name: login, match: {path: /login}, limits: 2/1m}
  - {name: free, match: {path: /free}, skip: true}
`, policy.GuardConfig{Observer: o})
}

func decide(t *testing.T, ctx context.Context, g *policy.Guard, path string) {
	t.Helper()
	in, v := policy.Input{Method: "POST", Path: path, Peer: netip.MustParseAddr("203.0.113.9")}, policy.Verdict{}
	if err := g.Decide(ctx, &in, &v); err != nil {
		t.Fatal(err)
	}
}

// TestTrace: the span of a request says what was decided, and never the subject.
func TestTrace(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	g := newGuard(t, Trace(nil))
	for _, path := range []string{"/free", "/", "/login", "/login", "/login"} {
		ctx, span := tracer.Start(t.Context(), path)
		decide(t, ctx, g, path)
		span.End()
	}
	decide(t, t.Context(), g, "/login") // has no span
	wants := []map[attribute.Key]any{
		{"stint.outcome": "allowed", "stint.tier": "", "stint.policy": "free"},
		{"stint.outcome": "allowed", "stint.tier": "anyone", "stint.policy": "", "stint.limit": "9/1m",
			"stint.remaining": int64(8)},
		{"stint.outcome": "allowed", "stint.policy": "login", "stint.limit": "2/1m", "stint.remaining": int64(1)},
		{"stint.remaining": int64(0)},
		{"stint.outcome": "denied", "stint.policy": "login", "stint.limit": "2/1m", "stint.degraded": false},
	}
	for i, span := range spans.Ended() {
		got := map[attribute.Key]any{}
		for _, a := range span.Attributes() {
			got[a.Key] = a.Value.AsInterface()
			if strings.Contains(a.Value.String(), "203.0.113") {
				t.Errorf("span %d tells the subject in %s", i, a.Key)
			}
		}
		for key, want := range wants[i] {
			if got[key] != want {
				t.Errorf("span %d: %s is %v, want %v", i, key, got[key], want)
			}
		}
		wait, denied := got["stint.retry_after_ms"].(int64)
		if denied != (i == 4) || denied && (wait < 50_000 || wait > 60_000) {
			t.Errorf("span %d: to come back in %d ms, %v", i, wait, denied)
		}
	}
}

// TestMetrics: a reader of the SDK gets what the monitor has counted.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.Must(observe.New(observe.Config{Logger: slog.New(slog.DiscardHandler)}))(t)
		defer m.Close()
		reader := sdkmetric.NewManualReader()
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		registration := testkit.Must(Metrics(provider, m))(t)
		g := newGuard(t, m)
		for range 5 {
			decide(t, t.Context(), g, "/login")
		}
		m.Observe(t.Context(), &resilience.StoreCall{Op: "take", Requests: 1, Took: 20 * time.Millisecond})
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()

		got := collect(t, reader)
		for name, want := range map[string]float64{
			"stint.decisions outcome=allowed,policy=login,reason=within,tier=anyone": 2,
			"stint.decisions outcome=denied,policy=login,reason=limit,tier=anyone":   3,
			"stint.decision.duration.count ":                                         5,
			"stint.store.call.duration.sum op=take":                                  0.02,
			"stint.store.up ":                                                        1,
		} {
			if value, ok := got[name]; !ok || value != want {
				t.Errorf("%s is %v, %v; want %v", name, value, ok, want)
			}
		}
		if p99 := got["stint.store.call.duration.p99 "]; p99 < 0.018 || p99 > 0.02 {
			t.Errorf("the p99 of store calls is %v s, want about 0.02", p99)
		}
		if err := registration.Unregister(); err != nil {
			t.Fatal(err)
		}
		if got := collect(t, reader); len(got) > 0 {
			t.Errorf("unregistered, but there is %v", got)
		}
	})
}

// collect returns all values by name and attributes.
func collect(t *testing.T, reader sdkmetric.Reader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			var points []metricdata.DataPoint[float64]
			switch data := m.Data.(type) {
			case metricdata.Sum[float64]:
				points = data.DataPoints
			case metricdata.Gauge[float64]:
				points = data.DataPoints
			}
			for _, p := range points {
				values[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
			}
		}
	}
	return values
}

// TestEveryMetricHasAnInstrument compares the definitions with the documentation, which is compared
// with the monitor.
func TestEveryMetricHasAnInstrument(t *testing.T) {
	text := testkit.Must(os.ReadFile("../../docs/metrics.md"))(t)
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(stint_\\w+)` \\|").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, row[1])
	}
	var defined []string
	for _, d := range definitions {
		defined = append(defined, d.family)
	}
	slices.Sort(documented)
	slices.Sort(defined)
	if !slices.Equal(defined, documented) {
		t.Errorf("defined are\n%s\ndocumented are\n%s", strings.Join(defined, "\n"), strings.Join(documented, "\n"))
	}
}
