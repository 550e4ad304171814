// Package otelstint is for programs that use OpenTelemetry: [Trace] describes decisions on the
// spans of requests, and [Metrics] registers instruments that read an [observe.Monitor]. The
// metrics are those of docs/metrics.md, with dots instead of underscores and without Prometheus'
// suffixes.
//
// It needs the API of OpenTelemetry only. Which pipeline there is, if any, is up to the program.
package otelstint
