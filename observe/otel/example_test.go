package otelstint_test

import (
	"context"
	"fmt"
	"log"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/observe"
	otelstint "github.com/stint-limiter/stint/observe/otel"
	"github.com/stint-limiter/stint/policy"
)

// The span of a request says what was decided, and never the subject.
func ExampleTrace() {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("example")
	guard, stop := exampleGuard(otelstint.Trace(nil))
	defer stop()
	ctx, span := tracer.Start(context.Background(), "GET /") // as your middleware does
	_ = guard.Decide(ctx, &policy.Input{Path: "/"}, &policy.Verdict{})
	span.End()
	for _, a := range spans.Ended()[0].Attributes() {
		fmt.Printf("%s=%v\n", a.Key, a.Value.AsInterface())
	}
	// Output:
	// stint.tier=anyone
	// stint.limit=10/1m
	// stint.remaining=9
	// stint.outcome=allowed
	// stint.policy=
	// stint.degraded=false
}

// Instruments read what a monitor has counted.
func ExampleMetrics() {
	monitor, err := observe.New(observe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer monitor.Close()
	reader := sdkmetric.NewManualReader() // or that of an exporter
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	if _, err := otelstint.Metrics(provider, monitor); err != nil {
		log.Fatal(err)
	}
	guard, stop := exampleGuard(monitor)
	defer stop()
	_ = guard.Decide(context.Background(), &policy.Input{Path: "/"}, &policy.Verdict{})

	var all metricdata.ResourceMetrics
	_ = reader.Collect(context.Background(), &all)
	for _, m := range all.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[float64]); ok && m.Name == "stint.decision.duration.count" {
			fmt.Println(m.Name, sum.DataPoints[0].Value)
		}
	}
	// Output:
	// stint.decision.duration.count 1
}

// exampleGuard returns a guard with an observer, over a store in memory.
func exampleGuard(observer stint.Observer) (guard *policy.Guard, stop func()) {
	set, err := policy.New(policy.Spec{Tiers: []policy.Tier{
		{Name: "anyone", Identity: []string{"everyone"}, Limits: policy.Limits(stint.PerMinute(10))},
	}})
	if err != nil {
		log.Fatal(err)
	}
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	guard, err = policy.NewGuard(store, set, policy.GuardConfig{Observer: observer})
	if err != nil {
		log.Fatal(err)
	}
	return guard, func() { _ = store.Close() }
}
