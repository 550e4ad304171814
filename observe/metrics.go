package observe

import "github.com/prometheus/client_golang/prometheus"

// metrics are the names of all metrics, as docs/metrics.md explains them.
type metrics struct {
	decisions, decisionDuration, settlementsLost *prometheus.Desc

	storeCallDuration, storeErrors, storeRequests, storeUp *prometheus.Desc
	breakerState, fallbacks, saved, instances              *prometheus.Desc
	subjects, memory, maxMemory                            *prometheus.Desc

	redisUp, redisOps, redisMemory, redisMaxMemory *prometheus.Desc
	redisEvicted, redisClients, redisKeys          *prometheus.Desc

	reloads, reloadTime, reloadSuccess *prometheus.Desc

	outboundCalls, outboundWait, outboundWaiting, outboundCooldowns *prometheus.Desc

	alert, buildInfo *prometheus.Desc

	all []*prometheus.Desc
}

func newMetrics() *metrics {
	m := &metrics{}
	name := func(name, help string, labels ...string) *prometheus.Desc {
		d := prometheus.NewDesc("stint_"+name, help, labels, nil)
		m.all = append(m.all, d)
		return d
	}
	m.decisions = name("decisions_total", "Decisions, by what came of them and why.", "tier", "policy",
		"outcome", "reason")
	m.decisionDuration = name("decision_duration_seconds",
		"How long decisions took. Of many the first 32 in every 20 ms are timed, so the count is not that of decisions.")
	m.settlementsLost = name("settlements_lost_total", "Refunds and settlements after a response that were not applied.",
		"tier", "policy", "op", "reason")

	m.storeCallDuration = name("store_call_duration_seconds", "How long calls to the store took.", "op")
	m.storeErrors = name("store_errors_total", "Calls to the store that failed.", "op", "kind")
	m.storeRequests = name("store_requests_total", "Requests that calls to the store carried: more than one to a call is what batching saves.")
	m.storeUp = name("store_up", "Whether the store answers: 1 or 0.")
	m.breakerState = name("breaker_state", "The state that the circuit breaker over the store is in has 1.", "state")
	m.fallbacks = name("fallback_decisions_total", "Decisions that were made without the store because it failed.", "mode")
	m.saved = name("saved_decisions_total", "Decisions that needed no call to the store.", "by")
	m.instances = name("instances", "Processes that are known to share the store.")
	m.subjects = name("subjects", "Subjects that the store in memory keeps.")
	m.memory = name("memory_bytes", "Memory that the store in memory counts as its own.")
	m.maxMemory = name("memory_max_bytes", "Memory that the store in memory may use before it forgets.")

	m.redisUp = name("redis_up", "Whether Redis works and tells about itself: 1 or 0.")
	m.redisOps = name("redis_ops_per_second", "Operations of Redis per second, for whomever.")
	m.redisMemory = name("redis_memory_bytes", "Memory that Redis uses.")
	m.redisMaxMemory = name("redis_memory_max_bytes", "Memory that Redis may use; 0 is any amount.")
	m.redisEvicted = name("redis_evicted_keys_total", "Keys that Redis threw away for want of memory, since it was started.")
	m.redisClients = name("redis_clients", "Connections that Redis has, from whomever.")
	m.redisKeys = name("redis_keys", "Keys in the database.")

	m.reloads = name("config_reloads_total", "Changes of parts of the configuration, by what came of them.", "source", "result")
	m.reloadTime = name("config_last_reload_timestamp_seconds", "When a part of the configuration was last found good.", "source")
	m.reloadSuccess = name("config_last_reload_success", "Whether a part of the configuration is in force as it is in its files: 1 or 0.", "source")

	m.outboundCalls = name("outbound_calls_total", "Calls to other APIs, by whether they could be made.", "api", "outcome")
	m.outboundWait = name("outbound_wait_seconds", "How long calls to other APIs waited for their turn.", "api")
	m.outboundWaiting = name("outbound_waiting", "Calls to other APIs that wait now.", "api")
	m.outboundCooldowns = name("outbound_cooldowns_total", "Pauses that other APIs have imposed.", "api")

	m.alert = name("alert", "Alerts that the process evaluates itself: 1 if it fires.", "name")
	m.buildInfo = name("build_info", "The program; always 1.", "version", "goversion")
	return m
}

// Describe implements [prometheus.Collector].
func (m *Monitor) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range m.metrics.all {
		ch <- d
	}
}
