package otelstint

import (
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"github.com/stint-limiter/stint/observe"
)

const scope = "github.com/stint-limiter/stint/observe/otel"

// Metrics registers asynchronous instruments for the metrics in docs/metrics.md. The instruments
// read the monitor at every collection. Because OpenTelemetry has no asynchronous histograms, each
// histogram becomes two counters: the number of its values (.count) and their sum (.sum). For
// decisions and store calls there are also gauges of the quantiles over the last ten seconds, in
// seconds (.p50, .p99). To stop reporting, call Unregister on the result.
func Metrics(provider metric.MeterProvider, m *observe.Monitor) (metric.Registration, error) {
	meter := provider.Meter(scope)
	b, err := newBridge(meter, m)
	if err != nil {
		return nil, fmt.Errorf("otelstint: %w", err)
	}
	return meter.RegisterCallback(b.observe, b.all...)
}

// definition maps a Prometheus metric to its OpenTelemetry instrument.
type definition struct {
	family string // name in Prometheus
	name   string
	kind   kind
	unit   string
}

type kind uint8

const (
	counter kind = iota
	gauge
	// A histogram has two instruments, for the count and the sum. A summary has two more, for
	// quantiles.
	histogram
	summary
)

var definitions = []definition{
	{"stint_decisions_total", "stint.decisions", counter, "{decision}"},
	{"stint_decision_duration_seconds", "stint.decision.duration", summary, "s"},
	{"stint_store_up", "stint.store.up", gauge, "1"},
	{"stint_settlements_lost_total", "stint.settlements.lost", counter, "{settlement}"},
	{"stint_settlement_units_lost_total", "stint.settlements.units_lost", counter, "{unit}"},
	{"stint_thresholds_total", "stint.thresholds", counter, "{threshold}"},
	{"stint_webhook_messages_total", "stint.webhook.messages", counter, "{message}"},
	{"stint_webhook_waiting", "stint.webhook.waiting", gauge, "{message}"},
	{"stint_holds_settled_total", "stint.holds.settled", counter, "{hold}"},
	{"stint_holds_expired_total", "stint.holds.expired", counter, "{heartbeat}"},
	{"stint_usage_estimated_total", "stint.usage.estimated", counter, "{response}"},
	{"stint_settlement_delay_seconds_total", "stint.settlements.delay", counter, "s"},
	{"stint_store_call_duration_seconds", "stint.store.call.duration", summary, "s"},
	{"stint_store_errors_total", "stint.store.errors", counter, "{call}"},
	{"stint_store_requests_total", "stint.store.requests", counter, "{request}"},
	{"stint_breaker_state", "stint.breaker.state", gauge, "1"},
	{"stint_fallback_decisions_total", "stint.fallback.decisions", counter, "{decision}"},
	{"stint_saved_decisions_total", "stint.saved.decisions", counter, "{decision}"},
	{"stint_instances", "stint.instances", gauge, "{process}"},
	{"stint_subjects", "stint.subjects", gauge, "{subject}"},
	{"stint_memory_bytes", "stint.memory", gauge, "By"},
	{"stint_memory_max_bytes", "stint.memory.max", gauge, "By"},
	{"stint_redis_up", "stint.redis.up", gauge, "1"},
	{"stint_redis_ops_per_second", "stint.redis.ops", gauge, "{operation}/s"},
	{"stint_redis_memory_bytes", "stint.redis.memory", gauge, "By"},
	{"stint_redis_memory_max_bytes", "stint.redis.memory.max", gauge, "By"},
	{"stint_redis_memory_share", "stint.redis.memory.share", gauge, "1"},
	{"stint_redis_cpu_share", "stint.redis.cpu.share", gauge, "1"},
	{"stint_redis_evicted_keys_total", "stint.redis.evicted.keys", counter, "{key}"},
	{"stint_redis_clock_steps_total", "stint.redis.clock.steps", counter, "{step}"},
	{"stint_redis_clients", "stint.redis.clients", gauge, "{connection}"},
	{"stint_redis_keys", "stint.redis.keys", gauge, "{key}"},
	{"stint_config_reloads_total", "stint.config.reloads", counter, "{reload}"},
	{"stint_config_last_reload_timestamp_seconds", "stint.config.last_reload.time", gauge, "s"},
	{"stint_config_last_reload_success", "stint.config.last_reload.success", gauge, "1"},
	{"stint_config_info", "stint.config.info", gauge, "1"},
	{"stint_certificate_expires_timestamp_seconds", "stint.certificate.expires.time", gauge, "s"},
	{"stint_outbound_calls_total", "stint.outbound.calls", counter, "{call}"},
	{"stint_outbound_wait_seconds", "stint.outbound.wait", histogram, "s"},
	{"stint_outbound_waiting", "stint.outbound.waiting", gauge, "{call}"},
	{"stint_outbound_cooldowns_total", "stint.outbound.cooldowns", counter, "{pause}"},
	{"stint_log_dropped_total", "stint.log.dropped", counter, "{record}"},
	{"stint_alert", "stint.alert", gauge, "1"},
	{"stint_build_info", "stint.build.info", gauge, "1"},
}
