package observe

import (
	"time"

	"github.com/stint-limiter/stint/resilience"
)

// This file defines the data that a [Monitor] returns. The dashboard and the command line pass it
// on unchanged, as JSON. Tiers and policies appear under the names in the configuration. Subjects
// are shortened unless [Config.ShowSubjects] is set. A Ref identifies a subject in later queries,
// even if the subject is shortened.

// Counts holds the numbers of decisions by outcome.
type Counts struct {
	Allowed int64 `json:"allowed"`
	// Denied is the number of requests denied because of a limit, a ban or an unavailable store.
	Denied int64 `json:"denied"`
	// Degraded is the number of decisions made without the store. Allowed and Denied include these
	// decisions.
	Degraded int64 `json:"degraded"`
	// Failed is the number of requests that could not be decided.
	Failed int64 `json:"failed"`
	// Shadowed is the number of requests allowed only because a rule is in shadow. Allowed includes
	// these requests.
	Shadowed int64 `json:"shadowed"`
}

// Point summarizes a period of time.
type Point struct {
	// At is the end of the period, in Unix seconds.
	At int64 `json:"at"`
	Counts
	// Saved is the number of decisions that needed no call to the store.
	Saved int64 `json:"saved"`
	// P50 and P99 are percentiles of the durations of decisions, in seconds. They are 0 if there were
	// no decisions. If several processes share their counts, each percentile is the largest of the
	// processes' values.
	P50 float64 `json:"p50_seconds"`
	P99 float64 `json:"p99_seconds"`
	// Calls is the number of calls to the store, except pings. CallsFailed is the number of calls
	// that failed, and Carried is the number of requests that the calls carried. StoreP50 and
	// StoreP99 are percentiles of the durations of calls, in seconds.
	Calls       int64   `json:"calls"`
	CallsFailed int64   `json:"calls_failed"`
	Carried     int64   `json:"carried"`
	StoreP50    float64 `json:"store_p50_seconds"`
	StoreP99    float64 `json:"store_p99_seconds"`
}

// Series counts the decisions on requests of a tier under a policy. Policy is "" for requests to
// which only the tier's own limits applied. The tier is "envoy" for Envoy descriptors, and
// "outbound" for calls to third-party APIs.
type Series struct {
	Tier   string `json:"tier"`
	Policy string `json:"policy"`
	// Total counts all decisions since the start. Recent counts the decisions in each of the last
	// steps of the history, oldest first.
	Total  Counts   `json:"total"`
	Recent []Counts `json:"recent,omitempty"`
}

// Violation is a request that was denied or, in shadow, would have been denied.
type Violation struct {
	At      time.Time `json:"at"`
	Subject string    `json:"subject"`
	// Ref is "" if the subject is too long to be kept in full.
	Ref    string `json:"ref"`
	Tier   string `json:"tier"`
	Policy string `json:"policy"`
	// Limit is the limit that denied the request, or would have denied it, such as "10/1m". It is
	// "" for a ban or an unavailable store.
	Limit string `json:"limit"`
	// Reason is "limit", "ban", "unavailable" or "shadow".
	Reason string `json:"reason"`
	// RetryAfter is the time in seconds after which to retry; -1 means never.
	RetryAfter float64 `json:"retry_after_seconds"`
	Degraded   bool    `json:"degraded,omitempty"`
}

// Denial records why a subject was denied. It covers all denials of the subject by one rule and for
// one reason within a minute. In a flood of denials, it covers only a sample of them.
type Denial struct {
	// ID is the id of the last denial. The responses to earlier denials contain other ids.
	ID      string `json:"id"`
	Subject string `json:"subject"`
	// Ref is "" if the subject is too long to be kept in full.
	Ref string `json:"ref"`
	// Tier and Policy identify the rule. Policy is "" for the limits of a tier.
	Tier   string `json:"tier"`
	Policy string `json:"policy"`
	Route  string `json:"route"`
	// Limit is the limit that denied the request, such as "10/1m"; it is "" for a ban or an
	// unavailable store. Max is the maximum of the limit. Used is the number of units used at the
	// last denial.
	Limit string `json:"limit"`
	Max   int64  `json:"max"`
	Used  int64  `json:"used"`
	// Reason is "limit", "ban", "degraded" or "unavailable".
	Reason string `json:"reason"`
	// RetryAfter is the time to wait after the last denial, in seconds; -1 means never.
	RetryAfter float64   `json:"retry_after_seconds"`
	Degraded   bool      `json:"degraded,omitempty"`
	First      time.Time `json:"first"`
	Last       time.Time `json:"last"`
	Count      int64     `json:"count"`
	// ConfigSince is the time at which the policies that denied the subject took effect. It is zero
	// if they have not changed since the start.
	ConfigSince time.Time `json:"config_since,omitzero"`
	Instance    string    `json:"instance"`
}

// Offender is a subject or a policy with many denials in the last eight to ten minutes.
type Offender struct {
	// Kind is "policy" for a policy. For a subject, it is the prefix of the subject if the prefix
	// is "ip", "user", "apikey", "session", "internal" or "envoy", and otherwise "other".
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	// Ref is "" for a policy, and for a subject that is too long to be kept in full.
	Ref string `json:"ref,omitempty"`
	// Denied is an upper bound on the number of denials. AtLeast is a lower bound.
	Denied  int64 `json:"denied"`
	AtLeast int64 `json:"at_least"`
	// Policy is the policy that denied the subject last. "tier free" stands for the limits of the
	// tier "free".
	Policy string `json:"policy"`

	// The following fields are set only for the few thousand subjects that were denied most
	// recently, and only for an hour after their last denial. Rate is the number of requests per
	// second in the last ten seconds. Share is the share of these requests that was denied, from 0
	// to 1.
	Rate  float64 `json:"rate"`
	Share float64 `json:"share"`
	// First and Last are the times of the first and the last denial.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
	// Policies are the policies that denied the subject, the most frequent first. "tier free"
	// stands for the limits of the tier "free".
	Policies []string `json:"policies,omitempty"`
	// Banned is the number of requests that the current ban has denied.
	Banned int64 `json:"banned,omitempty"`
}

// Alert is the state of an alert.
type Alert struct {
	Name string `json:"name"`
	// Severity is "page" or "ticket".
	Severity string `json:"severity"`
	// State is "ok", "pending" or "firing".
	State string `json:"state"`
	// Summary describes what is wrong and what to do first. While the alert is pending, it also
	// says how long the condition has held and when the alert will fire.
	Summary string `json:"summary"`
	// Value is the value that is compared with Threshold.
	Value     float64 `json:"value"`
	Threshold float64 `json:"threshold"`
	// Unit is the unit of Value and Threshold: "share", "ms", "s", "days", "times" or "count".
	Unit string `json:"unit"`
	// Since is the time at which the alert entered its state.
	Since time.Time `json:"since"`
}

// StoreHealth describes the health of the store.
type StoreHealth struct {
	// At is the time at which the store last reported its state. Warnings and the fields after it
	// are from that report.
	At time.Time `json:"at,omitzero"`
	// Kind is "memory" or "redis".
	Kind string `json:"kind"`
	Name string `json:"name"`
	Up   bool   `json:"up"`
	// DownSince is the time at which the current outage began, or nil if the store is up.
	DownSince *time.Time              `json:"down_since,omitempty"`
	Breaker   resilience.BreakerState `json:"breaker,omitempty"`
	Instances int                     `json:"instances,omitempty"`
	// Outage describes the current outage, and LastOutage the last one that has ended. Late answers
	// count as an outage only if they continue for a second or more.
	Outage     *Outage `json:"outage,omitempty"`
	LastOutage *Outage `json:"last_outage,omitempty"`
	// Lost lists the masters of a Redis Cluster that do not answer.
	Lost []string `json:"lost_nodes,omitempty"`
	// LastError is the last failure, and LastErrorAt its time.
	LastError   string     `json:"last_error,omitempty"`
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`
	// Warnings list problems with the setup of the store, for instance that it may evict keys.
	Warnings []string `json:"warnings,omitempty"`
	// Subjects and Bytes are the numbers of subjects and bytes in an in-memory store. MaxBytes is
	// its maximum size.
	Subjects int64 `json:"subjects,omitempty"`
	Bytes    int64 `json:"bytes,omitempty"`
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// Redis holds the values that Redis reports about itself. It is nil for other stores, and until
	// Redis has reported for the first time.
	Redis *RedisInfo `json:"redis,omitempty"`
}

// Outage is a period in which the store, or a part of it, did not work.
type Outage struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	// Fault is the name of the fault, such as "silent" or "full"; docs/alerts.md lists all faults.
	Fault string `json:"fault"`
	// Is describes the fault as a predicate whose subject is the store, such as "does not answer". Why
	// names the usual causes, and Fix describes the remedy, in full sentences. Error is the last
	// failure.
	Is    string `json:"is"`
	Why   string `json:"why"`
	Fix   string `json:"fix"`
	Error string `json:"error,omitempty"`
}

// RedisInfo holds values that Redis reports about itself.
type RedisInfo struct {
	Version      string  `json:"version"`
	OpsPerSecond float64 `json:"ops_per_second"`
	UsedMemory   int64   `json:"used_memory"`
	MaxMemory    int64   `json:"max_memory"`
	Evicted      int64   `json:"evicted_keys"`
	Clients      int64   `json:"connected_clients"`
	Keys         int64   `json:"keys"`
	// Policy is the Redis setting maxmemory-policy.
	Policy string `json:"maxmemory_policy"`
	// MemoryShare is the share of its maximum memory that the fullest server uses; it is 0 if there
	// is no maximum. CPUShare is the load of the busiest server's main thread in the last few
	// seconds; 1 is a whole core.
	MemoryShare float64 `json:"memory_share"`
	CPUShare    float64 `json:"cpu_share"`
	// ClockSteps is the number of jumps of server clocks that this process has detected.
	// LastClockStep describes the most recent one.
	ClockSteps    int64      `json:"clock_steps"`
	LastClockStep *ClockStep `json:"last_clock_step,omitempty"`
}

// ClockStep is a jump of a server's clock.
type ClockStep struct {
	At     time.Time `json:"at"`
	Server string    `json:"server"`
	// By is the size of the jump in seconds; negative if the clock was set back.
	By float64 `json:"by_seconds"`
}

// Tick is the message that subscribers receive every second.
type Tick struct {
	Point Point `json:"point"`
	// Series lists the series that have changed. In each, Recent contains only the change.
	Series []Series `json:"series"`
	// Violations lists violations of this second, newest last. Unshown is the number of violations
	// of this second that are not listed.
	Violations []Violation `json:"violations"`
	Unshown    int64       `json:"unshown"`
	// Offenders lists the subjects with the most denials in the last ten seconds, at most three.
	Offenders []Offender `json:"offenders"`
	// Alerts lists all alerts. It is nil if, since the last tick, no alert has changed its state, and
	// no pending or firing alert has changed its value or summary. A subscriber that is new or has
	// missed a tick always receives all alerts.
	Alerts []Alert     `json:"alerts,omitempty"`
	Store  StoreHealth `json:"store"`
	// Changes lists the configuration changes in the last hour, oldest first.
	Changes []Change `json:"changes,omitempty"`
	// Surge is the current surge, or nil.
	Surge *Surge `json:"surge,omitempty"`
	// Processes lists the processes that share their counts, this process first. It is nil if this
	// process does not share its counts. Point, Series, Offenders and Surge cover all processes.
	// Violations, Changes and most Alerts cover only this process.
	Processes []Process `json:"processes,omitempty"`
}
