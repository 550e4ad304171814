// Package observe monitors what a limiter does. A [Monitor] receives events and keeps counters, the
// history of the last hours, the subjects denied most often, shadow reports, and alerts. It is a
// Prometheus collector; package observe/otel exports the same metrics to OpenTelemetry; the
// dashboard and the command line show the data as [Point], [Series], [Violation], [Offender],
// [Alert] and [StoreHealth]. Start with [New]:
//
//	monitor := observe.New(observe.Config{})
//	defer monitor.Close()
//	prometheus.MustRegister(monitor)
//	...
//	guard, err := policy.NewGuard(store, set, policy.GuardConfig{Observer: monitor})
//
// Every name comes from the configuration. Of a request, only its subjects appear, and subjects are
// shortened. See docs/metrics.md and docs/alerts.md.
package observe
