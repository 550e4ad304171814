package simulate

import (
	"time"

	"github.com/stint-limiter/stint"
)

// Result is what a replay found. As JSON its times are RFC 3339 in UTC, its durations seconds and its limits texts such
// as "100/1m burst 3x". Lists are empty rather than null.
type Result struct {
	// Log is what was read.
	Log Log `json:"log"`
	// Outcome is what the configuration would have done.
	Outcome Outcome `json:"outcome"`
	// Against is what the other configuration would have done, and Comparison who gains and who loses; nil without one.
	Against    *Outcome    `json:"against,omitempty"`
	Comparison *Comparison `json:"comparison,omitempty"`
	// Recommendations are limits that would leave a wanted share of subjects untouched, in the order of the
	// configuration; empty unless shares were asked for.
	Recommendations []Recommendation `json:"recommendations"`
	// Notes are what a reader of the result has to know: what a log cannot tell, which bounds were reached.
	Notes []string `json:"notes"`
}

// Log is what was read of a log.
type Log struct {
	// Requests is how many were replayed, and Outside how many lay before or after the time asked for.
	Requests int64 `json:"requests"`
	Outside  int64 `json:"outside"`
	// Limited is how many requests of the log were answered with 429 back then.
	Limited int64 `json:"limited"`
	// Lines is how many were read, Bytes how long they were before decompression.
	Lines int64 `json:"lines"`
	Bytes int64 `json:"bytes"`
	// Malformed is how many lines could not be read, of which Examples are a few.
	Malformed int64     `json:"malformed"`
	Examples  []Example `json:"examples"`
	// Late is how many lines came too late to be sorted: they were replayed at the time of those around them.
	Late int64 `json:"late"`
	// First and Last are the times of the first and the last request that was replayed; zero without any.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
}

// Example is a line that could not be read.
type Example struct {
	File   string `json:"file"`
	Line   int64  `json:"line"`
	Text   string `json:"text"`
	Reason string `json:"reason"`
}

// Count is what became of some requests. Requests is the sum of Allowed and Denied.
type Count struct {
	Requests int64 `json:"requests"`
	Allowed  int64 `json:"allowed"`
	Denied   int64 `json:"denied"`
	// Banned is how many of those denied met a ban that was in force already.
	Banned int64 `json:"banned"`
	// Shadowed is how many of those allowed were so only because a limit is in shadow, or not rolled out to everybody.
	Shadowed int64 `json:"shadowed"`
	// Exempt is how many of those allowed nothing limits: a policy skips them.
	Exempt int64 `json:"exempt"`
}

// Outcome is what a configuration would have done.
type Outcome struct {
	// Total is of all requests.
	Total Count `json:"total"`
	// Tiers are all of them, in the order of the configuration. Routes are those that were asked for, in that order, and
	// at the end, with the name "", requests that have none. Requests that are exempt have neither: they are in Exempt, by the
	// name of the policy that skips them.
	Tiers  []Named `json:"tiers"`
	Routes []Named `json:"routes"`
	Exempt []Named `json:"exempt"`
	// Methods is of each method of each route that was asked for, those with the most requests first.
	Methods []MethodCount `json:"methods"`
	// Policies is what each rule had a say in.
	Policies []PolicyCount `json:"policies"`
	// Series is what happened when.
	Series Series `json:"series"`
	// Limits is how much of each limit was used, in the order of the configuration.
	Limits []LimitUse `json:"limits"`
	// Subjects is how many there were.
	Subjects Subjects `json:"subjects"`
	// Hit are those who were denied, or would have been but for shadow: the most often denied first, and no more than
	// were asked for.
	Hit []Hit `json:"hit"`
}

// Named is the count of what has a name in the configuration.
type Named struct {
	Name string `json:"name"`
	Count
}

// MethodCount is the count of one method of one route. Methods that HTTP does not define are together "other".
type MethodCount struct {
	Method string `json:"method"`
	Route  string `json:"route"`
	Count
}

// PolicyCount is what one rule, that is a tier or a policy as it applies to one tier, had a say in.
type PolicyCount struct {
	// Policy is the name of the policy, or "" for the tier's own limits, and Tier that of the tier.
	Policy string `json:"policy"`
	Tier   string `json:"tier"`
	// Costs says that the limits are on the sum of costs, and not on the number of requests.
	Costs bool `json:"costs"`
	// Enforced is the share of subjects for whom it has consequences.
	Enforced float64 `json:"enforced"`
	// Requests is how many the rule applied to. Denied is how many of these it denied: where several limits deny, the
	// one that does so for the longest counts. Shadowed is how many it would have denied were it enforced. A rule in
	// shadow is asked about requests that are allowed only.
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`
	Shadowed int64 `json:"shadowed"`
}

// Series is what happened when: one number for each step of time from Start on, none left out.
type Series struct {
	Start    time.Time `json:"start,omitzero"`
	Step     Duration  `json:"step"`
	Allowed  []int64   `json:"allowed"`
	Denied   []int64   `json:"denied"`
	Shadowed []int64   `json:"shadowed"` // of those allowed
}

// LimitUse is how much of one limit subjects used at their busiest. The use of a subject that has counts of its own in
// several scopes is that of the scope with the most.
type LimitUse struct {
	Policy string      `json:"policy"`
	Tier   string      `json:"tier"`
	Costs  bool        `json:"costs"`
	Limit  stint.Limit `json:"limit"`
	// Subjects is how many the limit applied to: 1 if everyone shares it. Hit is how many callers it denied, or would have
	// but for shadow.
	Subjects int64 `json:"subjects"`
	Hit      int64 `json:"hit"`
	// Headroom is about everyone else: the subjects that no limit ever denied, or would have but for shadow.
	Headroom Headroom `json:"headroom"`
	// Busiest are the subjects that used the most of it at once, hit or not: the busiest first.
	Busiest []Busy `json:"busiest"`
}

// Headroom is how the largest shares of a limit's capacity that subjects used are distributed. Example: P99 of 0.4 is
// that 99 of 100 subjects never used more than 40 % of it.
type Headroom struct {
	Subjects int64   `json:"subjects"`
	P50      float64 `json:"p50"`
	P90      float64 `json:"p90"`
	P99      float64 `json:"p99"`
	Max      float64 `json:"max"`
	// Histogram is how many subjects used up to 10 %, up to 20 % and so on, of 10 such steps.
	Histogram []int64 `json:"histogram"`
}

// Busy is the busiest window of a subject.
type Busy struct {
	Subject string `json:"subject"`
	// Used is how many units were in the window, and Share that as a part of the limit's capacity.
	Used  int64   `json:"used"`
	Share float64 `json:"share"`
	// At is the end of the window.
	At time.Time `json:"at"`
}

// Subjects is how many there were.
type Subjects struct {
	// Seen is how many were told apart, Hit how many of these were denied at least once, Shadowed how many would have been
	// but for shadow, and Banned how many were banned. What everyone shares is not counted as a subject.
	Seen     int64 `json:"seen"`
	Hit      int64 `json:"hit"`
	Shadowed int64 `json:"shadowed"`
	Banned   int64 `json:"banned"`
	// Bans is how many bans there were, and BannedFor how long they were together.
	Bans      int64    `json:"bans"`
	BannedFor Duration `json:"banned_for"`
	// Cap is how many are told apart at most. Others is what became of the requests of those who came when there were
	// as many: limits were applied to them, but they appear in no list and no distribution.
	Cap    int   `json:"cap"`
	Others Count `json:"others"`
	// Forgotten is how many counts of subjects had to be forgotten for want of memory. Unless it is 0, more requests may be
	// shown as allowed than would have been.
	Forgotten int64 `json:"forgotten"`
}

// Hit is a subject that was denied, or would have been but for shadow. Requests that a limit shared by everyone denies
// are those of the caller.
type Hit struct {
	Subject  string `json:"subject"`
	Requests int64  `json:"requests"`
	Denied   int64  `json:"denied"`
	Shadowed int64  `json:"shadowed"`
	// First and Last are the times of the first and last such request.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Longest is the longest time from one denial to another without anything allowed between them, and LongestAt when
	// it began.
	Longest   Duration  `json:"longest"`
	LongestAt time.Time `json:"longest_at,omitzero"`
	// WorstWait is the longest that the subject was told to wait. Never says that something was denied that could not be
	// allowed at any time: its cost is above what the limit allows at all.
	WorstWait Duration `json:"worst_wait"`
	Never     bool     `json:"never"`
	// By is which limits denied, the one that did most often first. Denials by a ban in force are not among them.
	By []Blame `json:"by"`
	// Bans is how many times the subject would have been banned, and BannedFor how long in all.
	Bans      int64    `json:"bans"`
	BannedFor Duration `json:"banned_for"`
}

// Blame is how often one limit denied a subject.
type Blame struct {
	Policy string      `json:"policy"`
	Tier   string      `json:"tier"`
	Limit  stint.Limit `json:"limit"`
	Denied int64       `json:"denied"`
	// Shadowed is how often the limit would have denied; limits in shadow only.
	Shadowed int64 `json:"shadowed"`
}

// Comparison is how two configurations differ on the same requests.
type Comparison struct {
	// AllowedByBoth, DeniedByBoth, OnlyDenied and OnlyAgainst add up to all requests. OnlyDenied are those that the
	// configuration denies and the other one allows, OnlyAgainst the reverse.
	AllowedByBoth int64 `json:"allowed_by_both"`
	DeniedByBoth  int64 `json:"denied_by_both"`
	OnlyDenied    int64 `json:"only_denied"`
	OnlyAgainst   int64 `json:"only_against"`
	// Gaining and Losing are how many subjects are denied less, and more, by the configuration than by the other one.
	Gaining int64 `json:"gaining"`
	Losing  int64 `json:"losing"`
	// Gain and Lose are those with the largest differences first, and no more than were asked for.
	Gain []Change `json:"gain"`
	Lose []Change `json:"lose"`
}

// Change is what two configurations make of the requests of one subject. Who that is the first of them says.
type Change struct {
	Subject string `json:"subject"`
	// Denied is how many the configuration denies, and Against how many the other one.
	Denied  int64 `json:"denied"`
	Against int64 `json:"against"`
}

// Recommendation is which limits would leave how many subjects untouched, for one rule and window. It is found by counting
// all requests that the rule applies to as if nothing were ever denied.
type Recommendation struct {
	Policy string `json:"policy"`
	Tier   string `json:"tier"`
	Costs  bool   `json:"costs"`
	// Window and Burst are those of the limits recommended: sliding ones, with a burst of so many times their maximum.
	Window Duration `json:"window"`
	Burst  int64    `json:"burst"`
	// Configured is the limit of that window and burst in the configuration; nil if there is none.
	Configured *stint.Limit `json:"configured,omitempty"`
	// Subjects is how many the rule applied to, of those that are told apart, and Requests how many of theirs.
	Subjects int64 `json:"subjects"`
	Requests int64 `json:"requests"`
	// Choices are the smallest limits for the shares that were asked for, in their order.
	Choices []Choice `json:"choices"`
	// Curve is what limits would do, from the smallest to the first from which on none affects anybody.
	Curve []Point `json:"curve"`
}

// Choice is the smallest limit that leaves a share of subjects untouched.
type Choice struct {
	// Share is the wanted one: 0.999 is that 999 of 1,000 subjects are never denied anything.
	Share float64 `json:"share"`
	// Exact is the smallest limit that does, and Limit one that is a round number and no smaller.
	Exact stint.Limit `json:"exact"`
	Limit stint.Limit `json:"limit"`
	// Affected is what Limit would do.
	Affected Point `json:"affected"`
}

// Point is what a limit would do.
type Point struct {
	// Max is the limit's maximum per window.
	Max int64 `json:"max"`
	// Subjects is how many would be denied something.
	Subjects int64 `json:"subjects"`
	// Requests is how many came at a time when their subject had used that much, which bounds those that would be denied from
	// above: what is denied is not counted, and leaves room for the next.
	Requests int64 `json:"requests"`
}
