package observe

import "github.com/prometheus/client_golang/prometheus"

// metrics lists all metrics. The names omit the prefix "stint_". docs/metrics.md explains the
// metrics.
var metrics = []struct {
	name, help string
	labels     []string
}{
	{"decisions_total", "Decisions, by outcome and reason.", []string{"tier", "policy", "outcome", "reason"}},
	{"decision_duration_seconds", "Duration of decisions. Under load, only the first 32 decisions in every 20 ms are timed, so the count is not the number of decisions.", nil},
	{"settlements_lost_total", "Refunds and settlements after a response that were not applied.", []string{"tier", "policy", "op", "reason"}},
	{"settlement_units_lost_total", "Units of true costs that were not charged because the debt would have been too large.", []string{"tier", "policy"}},
	{"thresholds_total", "Shares of quotas that subjects have reached, by the share in percent.", []string{"tier", "policy", "percent"}},
	{"webhook_messages_total", "Alerts and thresholds for webhooks, by result. The webhook label is a number for thresholds.", []string{"webhook", "result"}},
	{"webhook_waiting", "Alerts and thresholds waiting to be posted.", []string{"webhook"}},
	{"holds_settled_total", "Holds whose true cost was settled.", []string{"tier", "policy"}},
	{"holds_expired_total", "Heartbeats that arrived after their hold had expired.", []string{"tier", "policy"}},
	{"usage_estimated_total", "Responses that did not report how many tokens they used, so that an estimate was charged.", []string{"tier", "policy"}},
	{"settlement_delay_seconds_total", "Total time between the charges of holds and their settlements.", []string{"tier", "policy"}},

	{"store_call_duration_seconds", "Duration of calls to the store.", []string{"op"}},
	{"store_errors_total", "Calls to the store that failed.", []string{"op", "kind"}},
	{"store_requests_total", "Requests sent to the store in calls. With batching, one call carries several requests.", nil},
	{"store_up", "Whether the store answers: 1 or 0.", nil},
	{"breaker_state", "State of the circuit breaker for the store: 1 for the current state, 0 for the others.", []string{"state"}},
	{"fallback_decisions_total", "Decisions made without the store because it failed.", []string{"mode"}},
	{"saved_decisions_total", "Decisions that needed no call to the store.", []string{"by"}},
	{"instances", "Processes known to share the store.", nil},
	{"subjects", "Subjects in the memory store.", nil},
	{"memory_bytes", "Memory used by the memory store, by its own count.", nil},
	{"memory_max_bytes", "Memory that the memory store may use before it evicts subjects.", nil},

	{"redis_up", "Whether Redis answers INFO: 1 or 0.", nil},
	{"redis_ops_per_second", "Operations of Redis per second, for all of its clients.", nil},
	{"redis_memory_bytes", "Memory that Redis uses.", nil},
	{"redis_memory_max_bytes", "Memory that Redis may use; 0 means unlimited.", nil},
	{"redis_memory_share", "Share of its memory that the fullest server uses, 0 to 1; 0 if its memory is unlimited.", nil},
	{"redis_cpu_share", "Load of the main thread of the busiest server in the last seconds, 0 to 1.", nil},
	{"redis_evicted_keys_total", "Keys that Redis has evicted since it started because its memory was full.", nil},
	{"redis_clock_steps_total", "Times that this process detected that the clock of a Redis server was set.", nil},
	{"redis_clients", "Connections to Redis, of all of its clients.", nil},
	{"redis_keys", "Keys in the database.", nil},

	{"config_reloads_total", "Reloads of parts of the configuration, by result.", []string{"source", "result"}},
	{"config_last_reload_timestamp_seconds", "Time when a part of the configuration was last valid.", []string{"source"}},
	{"config_last_reload_success", "Whether the contents of the files of a part of the configuration are in force: 1 or 0.", []string{"source"}},
	{"certificate_expires_timestamp_seconds", "Time when the certificate in force expires.", []string{"source"}},
	{"config_info", "Fingerprint of a part of the configuration in force; always 1.", []string{"source", "fingerprint"}},

	{"outbound_calls_total", "Calls to third-party APIs, by outcome.", []string{"api", "outcome"}},
	{"outbound_wait_seconds", "How long calls to third-party APIs waited for their turn.", []string{"api"}},
	{"outbound_waiting", "Calls to third-party APIs that are waiting now.", []string{"api"}},
	{"outbound_cooldowns_total", "Pauses imposed by third-party APIs.", []string{"api"}},

	{"log_dropped_total", "Log records dropped because they could not be written in time.", nil},
	{"alert", "Alerts that the process itself evaluates: 1 while an alert fires, else 0.", []string{"name"}},
	{"build_info", "Version of the program; always 1.", []string{"version", "goversion"}},
}

func newDescs() map[string]*prometheus.Desc {
	descs := map[string]*prometheus.Desc{}
	for _, m := range metrics {
		descs[m.name] = prometheus.NewDesc("stint_"+m.name, m.help, m.labels, nil)
	}
	return descs
}

// Describe implements [prometheus.Collector].
func (m *Monitor) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range m.descs {
		ch <- d
	}
}
