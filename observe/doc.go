// Package observe shows what a limiter does: a [Monitor] counts, remembers the last hours, finds who is denied most, and raises
// alarms. What it knows is for Prometheus, whose collector it is, for OpenTelemetry through package observe/otel, and for the
// dashboard and the command line, which show it as [Point], [Series], [Violation], [Offender], [Alert] and [StoreHealth].
//
// Every name in it is from the configuration; requests only ever appear as subjects, and those shortened. See docs/metrics.md
// and docs/alerts.md.
package observe
