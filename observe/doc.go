// Package observe is for programs that want to see what a limiter does. A [Monitor] receives events
// and keeps counters, the history of the last hours, the subjects denied most often, shadow
// reports, and alerts. It is a Prometheus collector; package observe/otel exports the same to
// OpenTelemetry; the dashboard and the command line show it as [Point], [Series], [Violation],
// [Offender], [Alert] and [StoreHealth]. Start with [New]. A new alert is a row of alerts_rules.go,
// a section of docs/alerts.md and a rule in deploy/prometheus.
//
// Every name comes from the configuration. Requests appear only as subjects, and subjects are
// shortened. See docs/metrics.md and docs/alerts.md.
package observe
