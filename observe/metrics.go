package observe

import "github.com/prometheus/client_golang/prometheus"

// metrics lists all metrics, which docs/metrics.md explains. Their names begin with "stint_".
var metrics = []struct {
	name, help string
	labels     []string
}{
	{"decisions_total", "Decisions, by what came of them and why.", []string{"tier", "policy", "outcome", "reason"}},
	{"decision_duration_seconds", "How long decisions took. Of many the first 32 in every 20 ms are timed, so the count is not that of decisions.", nil},
	{"settlements_lost_total", "Refunds and settlements after a response that were not applied.", []string{"tier", "policy", "op", "reason"}},
	{"settlement_units_lost_total", "Units of true costs that were not charged because the debt would have been too large.", []string{"tier", "policy"}},
	{"thresholds_total", "Shares of quotas that subjects have reached, by the share in percent.", []string{"tier", "policy", "percent"}},
	{"webhook_messages_total", "Alerts and thresholds for webhooks, by what came of them. Thresholds have a webhook with a number.", []string{"webhook", "result"}},
	{"webhook_waiting", "Alerts and thresholds that wait to be posted.", []string{"webhook"}},
	{"holds_settled_total", "Holds whose true cost was settled.", []string{"tier", "policy"}},
	{"holds_expired_total", "Heartbeats that came after their hold had expired.", []string{"tier", "policy"}},
	{"usage_estimated_total", "Responses that did not say how many tokens they used, so that an estimate was charged.", []string{"tier", "policy"}},
	{"settlement_delay_seconds_total", "How long after their charge holds were settled, in all.", []string{"tier", "policy"}},

	{"store_call_duration_seconds", "How long calls to the store took.", []string{"op"}},
	{"store_errors_total", "Calls to the store that failed.", []string{"op", "kind"}},
	{"store_requests_total", "Requests that calls to the store carried: more than one to a call is what batching saves.", nil},
	{"store_up", "Whether the store answers: 1 or 0.", nil},
	{"breaker_state", "The state that the circuit breaker over the store is in has 1.", []string{"state"}},
	{"fallback_decisions_total", "Decisions that were made without the store because it failed.", []string{"mode"}},
	{"saved_decisions_total", "Decisions that needed no call to the store.", []string{"by"}},
	{"instances", "Processes that are known to share the store.", nil},
	{"subjects", "Subjects that the store in memory keeps.", nil},
	{"memory_bytes", "Memory that the store in memory counts as its own.", nil},
	{"memory_max_bytes", "Memory that the store in memory may use before it forgets.", nil},

	{"redis_up", "Whether Redis answers INFO: 1 or 0.", nil},
	{"redis_ops_per_second", "Operations of Redis per second, for all of its clients.", nil},
	{"redis_memory_bytes", "Memory that Redis uses.", nil},
	{"redis_memory_max_bytes", "Memory that Redis may use; 0 is any amount.", nil},
	{"redis_memory_share", "How full the memory of the fullest server is, 0 to 1; 0 if it may use any amount.", nil},
	{"redis_cpu_share", "How busy the main thread of the busiest server was in the last seconds, 0 to 1.", nil},
	{"redis_evicted_keys_total", "Keys that Redis evicted because its memory was full, since it started.", nil},
	{"redis_clock_steps_total", "How often this process noticed that the clock of a server was set.", nil},
	{"redis_clients", "Connections to Redis, of all of its clients.", nil},
	{"redis_keys", "Keys in the database.", nil},

	{"config_reloads_total", "Changes of parts of the configuration, by what came of them.", []string{"source", "result"}},
	{"config_last_reload_timestamp_seconds", "When a part of the configuration was last found good.", []string{"source"}},
	{"config_last_reload_success", "Whether a part of the configuration is in force as it is in its files: 1 or 0.", []string{"source"}},
	{"certificate_expires_timestamp_seconds", "When a certificate in force expires.", []string{"source"}},
	{"config_info", "A part of the configuration by the fingerprint of what is in force; always 1.", []string{"source", "fingerprint"}},

	{"outbound_calls_total", "Calls to other APIs, by whether they could be made.", []string{"api", "outcome"}},
	{"outbound_wait_seconds", "How long calls to other APIs waited for their turn.", []string{"api"}},
	{"outbound_waiting", "Calls to other APIs that wait now.", []string{"api"}},
	{"outbound_cooldowns_total", "Pauses that other APIs have imposed.", []string{"api"}},

	{"log_dropped_total", "Log records that were dropped because they could not be written in time.", nil},
	{"alert", "Alerts that the process evaluates itself: 1 if it fires.", []string{"name"}},
	{"build_info", "The program; always 1.", []string{"version", "goversion"}},
}

// newDescs returns the descriptions of all metrics, keyed by their names in metrics.
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
