// Package otelstint tells OpenTelemetry what a limiter does: [Trace] describes decisions on the spans of requests, and
// [Metrics] registers instruments that read an [observe.Monitor]. The metrics are those of docs/metrics.md, with dots where
// Prometheus has underscores and without its suffixes.
//
// It needs the API of OpenTelemetry only. Which pipeline there is, if any, is up to the program.
package otelstint
