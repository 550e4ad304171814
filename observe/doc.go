// Package observe monitors a limiter. A [Monitor] receives events and keeps counters, a history of
// the last hours, the subjects denied most often, shadow reports, and alerts. A Monitor is a
// Prometheus collector, and package observe/otel exports the same metrics to OpenTelemetry. The
// dashboard and the command line show its data: [Point], [Series], [Violation], [Offender], [Alert]
// and [StoreHealth]. Start with [New]:
//
//	monitor, err := observe.New(observe.Config{})
//	...
//	defer monitor.Close()
//	prometheus.MustRegister(monitor)
//	...
//	guard, err := policy.NewGuard(store, set, policy.GuardConfig{Observer: monitor})
//
// Names of tiers and policies come from the configuration. Subjects are the only part of a request
// that a Monitor shows, and by default it shortens them. See docs/metrics.md and docs/alerts.md.
package observe
