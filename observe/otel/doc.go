// Package otelstint connects stint to OpenTelemetry: [Trace] describes decisions on the spans of
// requests, and [Metrics] registers instruments that read an [observe.Monitor]. The names of the
// instruments are similar to those in docs/metrics.md, with dots instead of underscores, and
// without suffixes such as _total and _seconds.
//
// The package needs only the OpenTelemetry API. The program chooses the SDK and the exporters.
package otelstint
