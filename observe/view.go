package observe

import "time"

// What a [Monitor] shows people: the dashboard and the command line show it as it is here, in JSON.
// Names of tiers and policies are those of the configuration. Subjects are shortened, unless the
// monitor is set up otherwise; a Ref stands for one where more is asked about it.

// Counts are decisions, by what came of them.
type Counts struct {
	Allowed int64 `json:"allowed"`
	// Denied were over a limit, or banned.
	Denied int64 `json:"denied"`
	// Degraded were made without the store. They are among the allowed and the denied.
	Degraded int64 `json:"degraded"`
	// Failed could not be made.
	Failed int64 `json:"failed"`
	// Shadowed were allowed only because a rule is in shadow. They are among the allowed.
	Shadowed int64 `json:"shadowed"`
}

// Point is what happened in a stretch of time.
type Point struct {
	// At is its end, in Unix seconds.
	At int64 `json:"at"`
	Counts
	// Saved are decisions that needed no call to the store.
	Saved int64 `json:"saved"`
	// P50 and P99 are how long decisions took, in seconds; 0 without any. Of several processes they
	// are those of the slowest.
	P50 float64 `json:"p50_seconds"`
	P99 float64 `json:"p99_seconds"`
	// Calls to the store, those that failed, the requests they carried, and how long they took in
	// seconds.
	Calls       int64   `json:"calls"`
	CallsFailed int64   `json:"calls_failed"`
	Carried     int64   `json:"carried"`
	StoreP50    float64 `json:"store_p50_seconds"`
	StoreP99    float64 `json:"store_p99_seconds"`
}

// Series is what happened to the requests of a tier under a policy; the policy is "" where only the
// tier's own limits applied. Envoy's descriptors are of the tier "envoy", and calls to other
// people's APIs of "outbound".
type Series struct {
	Tier   string `json:"tier"`
	Policy string `json:"policy"`
	// Total is since the start, and Recent the last steps of the history, oldest first.
	Total  Counts   `json:"total"`
	Recent []Counts `json:"recent,omitempty"`
}

// Violation is a request that was denied, or would have been.
type Violation struct {
	At      time.Time `json:"at"`
	Subject string    `json:"subject"`
	// Ref is "" for a subject that is too long to be remembered.
	Ref    string `json:"ref"`
	Tier   string `json:"tier"`
	Policy string `json:"policy"`
	// Limit is the one that had no room, such as "10/1m".
	Limit string `json:"limit"`
	// Reason is "limit", "ban", "unavailable" or "shadow".
	Reason string `json:"reason"`
	// RetryAfter is in seconds; -1 is never.
	RetryAfter float64 `json:"retry_after_seconds"`
	Degraded   bool    `json:"degraded,omitempty"`
}

// Denial is why a subject was denied: all denials by one rule within a minute.
type Denial struct {
	// ID is that of the last one; the answers to the others have ids of the same subject.
	ID      string `json:"id"`
	Subject string `json:"subject"`
	// Ref is "" for a subject that is too long to be remembered.
	Ref string `json:"ref"`
	// Tier and Policy own the limit. The policy is "" for the limits of a tier.
	Tier   string `json:"tier"`
	Policy string `json:"policy"`
	Route  string `json:"route"`
	// Limit is the one that had no room, such as "10/1m", with its number and what was used of it
	// at the last denial. It is "" for a ban.
	Limit string `json:"limit"`
	Max   int64  `json:"max"`
	Used  int64  `json:"used"`
	// Reason is "limit", "ban", "degraded" or "unavailable".
	Reason string `json:"reason"`
	// RetryAfter is that of the last one, in seconds; -1 is never.
	RetryAfter float64   `json:"retry_after_seconds"`
	Degraded   bool      `json:"degraded,omitempty"`
	First      time.Time `json:"first"`
	Last       time.Time `json:"last"`
	Count      int64     `json:"count"`
	// Config is when the policies came into force that denied it, if they were changed since the
	// start.
	Config   time.Time `json:"config_since,omitzero"`
	Instance string    `json:"instance"`
}

// Offender is a subject, a policy or a tier with many denials in the last minutes.
type Offender struct {
	// Kind is what its subject begins with: "ip", "user", "apikey", "session", "internal", "envoy";
	// "other" for all others; or "policy".
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	// Ref is "" for policies, and for subjects that are too long to be remembered.
	Ref string `json:"ref,omitempty"`
	// Denied is how many denials at most, and AtLeast how many for sure.
	Denied  int64 `json:"denied"`
	AtLeast int64 `json:"at_least"`
	// Policy is the one that denied it last, or "tier free" for the limits of a tier.
	Policy string `json:"policy"`

	// What follows is known of subjects that are among the last few thousand that were denied, for
	// an hour after their last denial. Rate is their requests per second in the last ten seconds,
	// and Share how many of these were denied, from 0 to 1.
	Rate  float64 `json:"rate"`
	Share float64 `json:"share"`
	// First and Last are the times of denials.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
	// Policies are those that denied it, the one that did so most often first. The limits of a tier
	// are among them as "tier free".
	Policies []string `json:"policies,omitempty"`
	// Banned is how many requests its ban has denied since it began.
	Banned int64 `json:"banned,omitempty"`
}

// Alert is a condition that somebody should know of.
type Alert struct {
	Name string `json:"name"`
	// Severity is "page" or "ticket".
	Severity string `json:"severity"`
	// State is "ok", "pending" or "firing".
	State string `json:"state"`
	// Summary says what is wrong, and what to do first; while it is pending, how long that has
	// lasted, and when it will fire.
	Summary string `json:"summary"`
	// Value is what is compared with the threshold.
	Value     float64 `json:"value"`
	Threshold float64 `json:"threshold"`
	// Unit is that of both: "share", "ms", "s", "times" or "count".
	Unit string `json:"unit"`
	// Since is when it entered its state.
	Since time.Time `json:"since"`
}

// StoreHealth is how the store is.
type StoreHealth struct {
	// At is when the store last reported its state: Warnings and what follows are as of then.
	At time.Time `json:"at,omitzero"`
	// Kind is "memory" or "redis".
	Kind string `json:"kind"`
	Name string `json:"name"`
	Up   bool   `json:"up"`
	// DownSince is when it first failed since it last worked, if it is not up.
	DownSince *time.Time `json:"down_since,omitempty"`
	Breaker   string     `json:"breaker,omitempty"`
	Instances int        `json:"instances,omitempty"`
	// Outage says what is wrong while it is not up, and LastOutage what was before it last came
	// back. Answers that are late for less than a second are no outage.
	Outage     *Outage `json:"outage,omitempty"`
	LastOutage *Outage `json:"last_outage,omitempty"`
	// Lost are masters of a Redis Cluster that do not answer.
	Lost []string `json:"lost_nodes,omitempty"`
	// LastError is the last failure, and when.
	LastError   string     `json:"last_error,omitempty"`
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`
	// Warnings are what is wrong with how it is set up, such as keys that it may evict.
	Warnings []string `json:"warnings,omitempty"`
	// Subjects and Bytes are what a store in memory keeps, and MaxBytes what it may.
	Subjects int64 `json:"subjects,omitempty"`
	Bytes    int64 `json:"bytes,omitempty"`
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// Redis is what a Redis says of itself.
	Redis *RedisInfo `json:"redis,omitempty"`
}

// Outage is a time in which the store could not be asked, or a part of it.
type Outage struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	// Fault is the kind of fault, as docs/alerts.md lists them: "silent", "full".
	Fault string `json:"fault"`
	// Is completes a sentence that begins with the store: "does not answer". Why has the usual
	// causes, and Fix the remedy, in sentences. Error is the last failure.
	Is    string `json:"is"`
	Why   string `json:"why"`
	Fix   string `json:"fix"`
	Error string `json:"error,omitempty"`
}

// RedisInfo is what a Redis says of itself.
type RedisInfo struct {
	Version      string  `json:"version"`
	OpsPerSecond float64 `json:"ops_per_second"`
	UsedMemory   int64   `json:"used_memory"`
	MaxMemory    int64   `json:"max_memory"`
	Evicted      int64   `json:"evicted_keys"`
	Clients      int64   `json:"connected_clients"`
	Keys         int64   `json:"keys"`
	// Policy is maxmemory-policy.
	Policy string `json:"maxmemory_policy"`
	// MemoryShare is how full the memory of the fullest server is, 0 without a bound, and CPUShare
	// how busy the main thread of the busiest one was in the last seconds: 1 is all of a core.
	MemoryShare float64 `json:"memory_share"`
	CPUShare    float64 `json:"cpu_share"`
	// ClockSteps is how often this process has noticed that the clock of a server was set, and
	// LastClockStep the last time.
	ClockSteps    int64      `json:"clock_steps"`
	LastClockStep *ClockStep `json:"last_clock_step,omitempty"`
}

// ClockStep is a change of a server's clock that was no passing of time.
type ClockStep struct {
	At     time.Time `json:"at"`
	Server string    `json:"server"`
	// By is how far it was set ahead, in seconds; it is negative if it was set back.
	By float64 `json:"by_seconds"`
}

// Tick is what subscribers receive every second.
type Tick struct {
	Point Point `json:"point"`
	// Series are those that something happened to, with what it was.
	Series []Series `json:"series"`
	// Violations are some of the second's, newest last, and Unshown how many others there were.
	Violations []Violation `json:"violations"`
	Unshown    int64       `json:"unshown"`
	// Offenders are up to three subjects, those with most denials in the last ten seconds.
	Offenders []Offender `json:"offenders"`
	// Alerts are all, if any has changed its state since the last tick or value while not ok, and
	// for a subscriber that is new or has missed a tick; else nil.
	Alerts []Alert     `json:"alerts,omitempty"`
	Store  StoreHealth `json:"store"`
	// Changes are those of the configuration in the last hour, oldest first.
	Changes []Change `json:"changes,omitempty"`
	// Surge is traffic that is many times the usual; nil without one.
	Surge *Surge `json:"surge,omitempty"`
	// Processes are those that share what they count, this one first; nil if it does not. Point,
	// Series and Offenders are of all of them, Violations and Alerts of this one.
	Processes []Process `json:"processes,omitempty"`
}
