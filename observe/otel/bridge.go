package otelstint

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/stint-limiter/stint/observe"
)

// These constants are the suffixes of instrument names for histograms and summaries.
const (
	countOf  = ".count"
	sumOf    = ".sum"
	medianOf = ".p50"
	tailOf   = ".p99"
)

// bridge reports the metrics of a monitor to OpenTelemetry.
type bridge struct {
	monitor  *observe.Monitor
	registry *prometheus.Registry
	names    map[string]string // instrument names, by the names of Prometheus families
	each     map[string]metric.Float64Observable
	all      []metric.Observable
}

// newBridge returns a bridge with its instruments. The caller registers them.
func newBridge(meter metric.Meter, m *observe.Monitor) (*bridge, error) {
	b := &bridge{
		monitor: m, registry: prometheus.NewRegistry(), names: map[string]string{},
		each: map[string]metric.Float64Observable{},
	}
	errs := []error{b.registry.Register(m)}
	for _, d := range definitions {
		b.names[d.family] = d.name
		errs = append(errs, b.define(meter, d))
	}
	return b, errors.Join(errs...)
}

func (b *bridge) define(meter metric.Meter, d definition) error {
	count := func(name, unit string) error {
		i, err := meter.Float64ObservableCounter(name, metric.WithUnit(unit))
		return b.keep(name, i, err)
	}
	measure := func(name string) error {
		i, err := meter.Float64ObservableGauge(name, metric.WithUnit(d.unit))
		return b.keep(name, i, err)
	}
	switch d.kind {
	case counter:
		return count(d.name, d.unit)
	case gauge:
		return measure(d.name)
	case histogram:
		return errors.Join(count(d.name+countOf, "1"), count(d.name+sumOf, d.unit))
	}
	return errors.Join(count(d.name+countOf, "1"), count(d.name+sumOf, d.unit), measure(d.name+medianOf),
		measure(d.name+tailOf))
}

func (b *bridge) keep(name string, i metric.Float64Observable, err error) error {
	b.each[name] = i
	b.all = append(b.all, i)
	return err
}

func (b *bridge) observe(_ context.Context, o metric.Observer) error {
	families, err := b.registry.Gather()
	for _, f := range families {
		name := b.names[f.GetName()]
		for _, m := range f.GetMetric() {
			with := metric.WithAttributes(attributes(m)...)
			switch {
			case m.GetCounter() != nil:
				o.ObserveFloat64(b.each[name], m.GetCounter().GetValue(), with)
			case m.GetGauge() != nil:
				o.ObserveFloat64(b.each[name], m.GetGauge().GetValue(), with)
			case m.GetHistogram() != nil:
				o.ObserveFloat64(b.each[name+countOf], float64(m.GetHistogram().GetSampleCount()), with)
				o.ObserveFloat64(b.each[name+sumOf], m.GetHistogram().GetSampleSum(), with)
			}
		}
	}
	b.quantiles(o)
	return err
}

// quantiles reports the quantiles of the last complete ten-second step of the history.
func (b *bridge) quantiles(o metric.Observer) {
	points := b.monitor.History(10 * time.Second)
	if len(points) == 0 {
		return
	}
	last := points[len(points)-1]
	for name, value := range map[string]float64{
		"stint.decision.duration" + medianOf:   last.P50,
		"stint.decision.duration" + tailOf:     last.P99,
		"stint.store.call.duration" + medianOf: last.StoreP50,
		"stint.store.call.duration" + tailOf:   last.StoreP99,
	} {
		o.ObserveFloat64(b.each[name], value)
	}
}

func attributes(m *dto.Metric) []attribute.KeyValue {
	list := make([]attribute.KeyValue, len(m.GetLabel()))
	for i, l := range m.GetLabel() {
		list[i] = attribute.String(l.GetName(), l.GetValue())
	}
	return list
}
