package simulate

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
)

// Result is the result of a replay. In JSON, times are RFC 3339 in UTC, durations are seconds and
// limits are strings such as "100/1m burst 3x". Lists are empty rather than null.
type Result struct {
	// If too much of the log could not be read, Warning says that the result is unreliable.
	// Otherwise, it is "". It comes first in JSON and in the report.
	Warning string `json:"warning,omitempty"`
	// Log describes what was read.
	Log Log `json:"log"`
	// Outcome describes what the configuration would have done.
	Outcome Outcome `json:"outcome"`
	// Against describes what the other configuration would have done, and Comparison shows how the
	// two configurations differ. Both are nil if Options.Against is nil.
	Against    *Outcome    `json:"against,omitempty"`
	Comparison *Comparison `json:"comparison,omitempty"`
	// Recommendations lists limits that leave the requested shares of subjects untouched, in the
	// order of the configuration. It is empty unless shares were requested.
	Recommendations []Recommendation `json:"recommendations"`
	// Notes holds what a reader of the result needs to know: what a log does not show, and which
	// bounds were reached.
	Notes []string `json:"notes"`
}

// Log describes what was read from a log.
type Log struct {
	// Requests is the number of replayed requests. Outside is the number of requests that were left
	// out because of Options.From and Options.To.
	Requests int64 `json:"requests"`
	Outside  int64 `json:"outside"`
	// Limited is the number of requests that the logging server answered with 429.
	Limited int64 `json:"limited"`
	// Lines and Bytes measure how much was read. Bytes are counted before decompression.
	Lines int64 `json:"lines"`
	Bytes int64 `json:"bytes"`
	// HostNames is the number of replayed requests whose client the log identifies by a host name.
	HostNames int64 `json:"host_names"`
	// Malformed is the number of lines that could not be read. Examples holds a few of them.
	Malformed int64                 `json:"malformed"`
	Examples  []accesslog.Malformed `json:"examples"`
	// Damaged lists the logs whose compressed data could not be read to the end.
	Damaged []accesslog.Damage `json:"damaged"`
	// Late is the number of lines that came too late to be sorted. They were replayed at the time
	// of the lines around them.
	Late int64 `json:"late"`
	// First and Last are the times of the first and the last replayed request; zero if there were
	// none.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
}

// Count counts requests by outcome. Requests is the sum of Allowed and Denied.
type Count struct {
	Requests int64 `json:"requests"`
	Allowed  int64 `json:"allowed"`
	Denied   int64 `json:"denied"`
	// Banned is the number of requests that were denied by a ban already in force.
	Banned int64 `json:"banned"`
	// Shadowed is the number of allowed requests that would have been denied if all limits were
	// enforced for everyone.
	Shadowed int64 `json:"shadowed"`
	// Exempt is the number of allowed requests that a policy exempts from all limits.
	Exempt int64 `json:"exempt"`
}

// Outcome describes what a configuration would have done.
type Outcome struct {
	// Total counts all requests.
	Total Count `json:"total"`
	// Tiers has the counts of all tiers, in the order of the configuration. Routes has the counts
	// of the routes that were requested, in the same order, followed by the count of requests
	// without a route, which has the name "". Requests that a policy exempts have neither a tier
	// nor a route: Exempt counts them under the name of the policy.
	Tiers  []NamedCount `json:"tiers"`
	Routes []NamedCount `json:"routes"`
	Exempt []NamedCount `json:"exempt"`
	// Methods has a count for each combination of method and route that was requested, in
	// descending order of requests.
	Methods []MethodCount `json:"methods"`
	// Policies counts what each rule decided, in the order of the configuration.
	Policies []RuleCount `json:"policies"`
	// Series counts requests over time.
	Series Series `json:"series"`
	// Limits describes how much of each limit was used, in the order of the configuration.
	Limits []LimitUse `json:"limits"`
	// Subjects counts the subjects by what happened to them.
	Subjects Subjects `json:"subjects"`
	// Hit lists the subjects that were denied, or would have been denied if all limits were
	// enforced. The subjects with the most denials come first. The list has at most Options.Top
	// entries.
	Hit []Hit `json:"hit"`
	// Size describes the load that the requests would put on Redis.
	Size Size `json:"size"`
}

// NamedCount is the count of a tier, a route or a policy.
type NamedCount struct {
	Name string `json:"name"`
	Count
}

// MethodCount is the count of one method of one route. Methods that HTTP does not define are
// counted together as "other".
type MethodCount struct {
	Method string `json:"method"`
	Route  string `json:"route"`
	Count
}

// RuleCount counts what one rule decided. A rule is a tier, or a policy as it applies to one tier.
type RuleCount struct {
	// Policy is the name of the policy, or "" for the tier's own limits. Tier is the name of the
	// tier.
	Policy string `json:"policy"`
	Tier   string `json:"tier"`
	// Costs is set if the limits apply to the sum of costs instead of the number of requests.
	Costs bool `json:"costs"`
	// Enforced is the share of subjects that the rule is enforced for.
	Enforced float64 `json:"enforced"`
	// Requests is the number of requests that the rule applied to. Denied counts those that it
	// denied. If several limits deny a request, the request counts for the limit with the longest
	// wait. Shadowed counts the requests that the rule would have denied if it were enforced. A
	// rule in shadow applies only to requests that all enforced rules allow.
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`
	Shadowed int64 `json:"shadowed"`
}

// Series counts requests over time: one number for each step starting at Start, without gaps.
type Series struct {
	Start    time.Time `json:"start,omitzero"`
	Step     Duration  `json:"step_seconds"`
	Allowed  []int64   `json:"allowed"`
	Denied   []int64   `json:"denied"`
	Shadowed []int64   `json:"shadowed"` // included in Allowed
}

// LimitUse describes how much of one limit each subject used at its busiest. If a subject is
// counted in several scopes, only the scope with the highest usage is included.
type LimitUse struct {
	Policy string      `json:"policy"`
	Tier   string      `json:"tier"`
	Costs  bool        `json:"costs"`
	Limit  stint.Limit `json:"limit"`
	// Claim is the claim that sets the maximum of the limit, or "". If it is set, Limit is the
	// limit of requests without the claim, and shares refer to the limit that each subject had.
	Claim string `json:"claim,omitempty"`
	// Subjects is the number of subjects that the limit applied to: 1 if everyone shares it. Hit is
	// the number of callers that it denied, or would have denied if it were enforced.
	Subjects int64 `json:"subjects"`
	Hit      int64 `json:"hit"`
	// Headroom covers the subjects that were never denied, not even in shadow.
	Headroom Headroom `json:"headroom"`
	// Busiest lists the subjects that used the most of the limit at once, denied or not, in
	// descending order.
	Busiest []Busy `json:"busiest"`
}

// Headroom is the distribution of the largest share of a limit's capacity that each subject used.
// Example: a P99 of 0.4 means that 99 of 100 subjects never used more than 40% of it.
type Headroom struct {
	Subjects int64   `json:"subjects"`
	P50      float64 `json:"p50"`
	P90      float64 `json:"p90"`
	P99      float64 `json:"p99"`
	Max      float64 `json:"max"`
	// Histogram counts the subjects by their largest share, in 10 steps: up to 10%, more than 10%
	// and up to 20%, and so on.
	Histogram []int64 `json:"histogram"`
}

// Busy is the busiest window of a subject.
type Busy struct {
	Subject string `json:"subject"`
	// Used is the number of units in the window, and Share is Used divided by the limit's capacity.
	Used  int64   `json:"used"`
	Share float64 `json:"share"`
	// At is the end of the window.
	At time.Time `json:"at"`
}

// Subjects counts subjects by what happened to them, and their bans.
type Subjects struct {
	// Seen is the number of subjects that were counted separately. Hit counts those that were
	// denied at least once, Shadowed those that would have been denied if all limits were enforced,
	// and Banned those that were banned. Seen does not include the subject that stands for everyone
	// under a shared limit.
	Seen     int64 `json:"seen"`
	Hit      int64 `json:"hit"`
	Shadowed int64 `json:"shadowed"`
	Banned   int64 `json:"banned"`
	// Bans is the number of bans, and BannedFor is their total length.
	Bans      int64    `json:"bans"`
	BannedFor Duration `json:"banned_for_seconds"`
	// Cap is the maximum of Seen. Others counts the requests of all other subjects: limits were
	// applied to them, but no list or distribution includes them.
	Cap    int   `json:"cap"`
	Others Count `json:"others"`
	// Forgotten is the number of counts that were dropped for lack of memory. If it is not 0, the
	// result may show more requests as allowed than a server would have allowed.
	Forgotten int64 `json:"forgotten"`
}

// Size describes the load that the requests would put on a Redis server.
type Size struct {
	// Subjects is the largest number of subjects that the server would store at the same time. It
	// includes only subjects that are counted separately.
	Subjects   int64     `json:"subjects"`
	SubjectsAt time.Time `json:"subjects_at,omitzero"`
	// Second and Minute are the busiest second and minute.
	Second Load `json:"second"`
	Minute Load `json:"minute"`
}

// Load counts the requests and store calls within a second or a minute.
type Load struct {
	// At is the start of the second or minute; zero if there were no requests.
	At       time.Time `json:"at,omitzero"`
	Requests int64     `json:"requests"`
	// Decisions is the number of decisions requested from the store: one for a request, one more
	// for each rule in shadow, and none if nothing limits the request. Settlements is the number of
	// charges that were refunded or settled.
	Decisions   int64 `json:"decisions"`
	Settlements int64 `json:"settlements"`
}

// Hit describes a subject that was denied, or would have been denied if all limits were enforced.
// If a shared limit denies a request, the request counts for the caller.
type Hit struct {
	Subject  string `json:"subject"`
	Requests int64  `json:"requests"`
	Denied   int64  `json:"denied"`
	Shadowed int64  `json:"shadowed"`
	// First and Last are the times of the first and the last denial, enforced or in shadow.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Longest is the longest time from one denial to a later denial during which nothing was
	// allowed. LongestAt is the start of that time.
	Longest   Duration  `json:"longest_seconds"`
	LongestAt time.Time `json:"longest_at,omitzero"`
	// WorstWait is the longest time that the subject was asked to wait. Never is set if a denied
	// request could never be allowed because its cost exceeds the limit.
	WorstWait Duration `json:"worst_wait_seconds"`
	Never     bool     `json:"never"`
	// By lists the limits that denied requests, in descending order of denials. Banned is the
	// number of requests that were denied by a ban already in force, not by a limit.
	By     []HitBy `json:"by"`
	Banned int64   `json:"banned"`
	// Bans is the number of times that the subject was banned, and BannedFor is the total length of
	// these bans.
	Bans      int64    `json:"bans"`
	BannedFor Duration `json:"banned_for_seconds"`
}

// HitBy counts how often one limit denied a subject.
type HitBy struct {
	Policy string      `json:"policy"`
	Tier   string      `json:"tier"`
	Limit  stint.Limit `json:"limit"`
	Denied int64       `json:"denied"`
	// Shadowed counts how often the limit would have denied the subject if it were not in shadow.
	Shadowed int64 `json:"shadowed"`
}

// Comparison compares the decisions of two configurations on the same requests: this one,
// Options.Set, and the other one, Options.Against.
type Comparison struct {
	// AllowedByBoth, DeniedByBoth, OnlyDenied and OnlyAgainst add up to all requests. OnlyDenied
	// counts the requests that only this configuration denies. OnlyAgainst counts the requests that
	// only the other configuration denies.
	AllowedByBoth int64 `json:"allowed_by_both"`
	DeniedByBoth  int64 `json:"denied_by_both"`
	OnlyDenied    int64 `json:"only_denied"`
	OnlyAgainst   int64 `json:"only_against"`
	// Gaining is the number of subjects that this configuration denies less often than the other
	// one. Losing is the number of subjects that it denies more often.
	Gaining int64 `json:"gaining"`
	Losing  int64 `json:"losing"`
	// Gain and Lose list these subjects, those with the largest differences first. Each list has at
	// most Options.Top entries.
	Gain []Change `json:"gain"`
	Lose []Change `json:"lose"`
}

// Change counts how often two configurations deny the requests of one subject. The subject is the
// caller under the first configuration or, if that does not limit the request, under the second
// one.
type Change struct {
	Subject string `json:"subject"`
	// Denied is the number of requests that this configuration denies, and Against is the number
	// that the other one denies.
	Denied  int64 `json:"denied"`
	Against int64 `json:"against"`
}

// Recommendation shows what different limits would do for one rule and window, each as if it were
// the only limit.
type Recommendation struct {
	Policy string `json:"policy"`
	Tier   string `json:"tier"`
	Costs  bool   `json:"costs"`
	// Name is the quantity that the limits count, such as "input_tokens"; "" for requests.
	Name string `json:"name,omitempty"`
	// Window and Burst apply to all recommended limits. These are calendar limits if Configured is
	// one, and sliding limits otherwise. Burst is a multiple of the limit's maximum.
	Window Duration `json:"window_seconds"`
	Burst  int64    `json:"burst"`
	// Configured is the limit in the configuration with that window and burst; nil if there is
	// none.
	Configured *stint.Limit `json:"configured,omitempty"`
	// Subjects is the number of separately counted subjects that the rule applied to, and Requests
	// is the number of their requests.
	Subjects int64 `json:"subjects"`
	Requests int64 `json:"requests"`
	// Choices lists the smallest limits for the requested shares, in the order of the shares.
	Choices []Choice `json:"choices"`
	// Curve lists the effects of limits in ascending order. It ends with the first limit that, like
	// all larger limits, affects no subject.
	Curve []Point `json:"curve"`
}

// Choice is the smallest limit that leaves a share of subjects untouched, exact and rounded up.
type Choice struct {
	// Share is the requested share: 0.999 means that 999 of 1,000 subjects are never denied.
	Share float64 `json:"share"`
	// Exact is the smallest limit that leaves this share untouched. Limit has the smallest round
	// maximum that is at least as large and also leaves this share untouched.
	Exact stint.Limit `json:"exact"`
	Limit stint.Limit `json:"limit"`
	// Affected is the effect of Limit.
	Affected Point `json:"affected"`
}

// Point is the effect of one limit.
type Point struct {
	// Max is the limit's maximum per window.
	Max int64 `json:"max"`
	// Subjects is the number of subjects that would be denied at least once.
	Subjects int64 `json:"subjects"`
	// Requests is the number of requests that would be denied.
	Requests int64 `json:"requests"`
}

// Duration is a time.Duration that is encoded in JSON as a number of seconds.
type Duration time.Duration

// MarshalJSON encodes d as a number of seconds.
func (d Duration) MarshalJSON() ([]byte, error) {
	return []byte(figures.Seconds(time.Duration(d))), nil
}
