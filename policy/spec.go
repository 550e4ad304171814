package policy

import (
	"maps"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// Spec describes a set of policies. [New] makes a [Set] from it. In a Spec and in the types of its
// fields, a field with its zero value is not set and has its default. If 0 or an empty list is a
// valid setting, the field is a pointer or a slice, and nil means not set. Package config reads a
// Spec from YAML.
type Spec struct {
	// Failure determines what happens when the store fails, unless a tier or a policy has its own.
	Failure stint.FailurePolicy
	// TrustedProxies are the peers that are trusted to name the client of a request: addresses,
	// networks, "loopback", "private" and "unix". If there are none, the client is the peer.
	TrustedProxies []string
	// ClientHeader is the header in which trusted proxies name the client; "" means
	// X-Forwarded-For.
	ClientHeader string
	// IPv4Prefix and IPv6Prefix are the numbers of leading bits of an address that identify a
	// client; 0 means 32 for IPv4 and 64 for IPv6.
	IPv4Prefix, IPv6Prefix int
	// Claims maps the names of claims to the headers in which trusted proxies assert them. It does
	// not list claims that the application passes in [Input.Claims].
	Claims map[string]string
	// Identities maps names to ways to identify callers, in addition to the predefined identities
	// "ip", "user" and "everyone".
	Identities map[string]Identity
	// Tiers are groups of callers with their limits. A request belongs to the first tier that fits;
	// the last tier must take every request.
	Tiers []Tier
	// Policies limit the requests that they match, in addition to the limits of the tier. Every
	// matching policy applies.
	Policies []Policy
	// Bans configures how subjects that keep being denied are banned. If it is nil, no subject is
	// banned, and existing bans are ignored.
	Bans *stint.BanPolicy
	// RequestID is the header that identifies a request, so that repeats are not charged again; ""
	// means none. RequestIDLife is the time for which an id is remembered; 0 means the shortest
	// window of the first rule that limits the request.
	RequestID     string
	RequestIDLife time.Duration
	// Contact tells denied callers where to ask for more: text or a URL (http, https, mailto). It
	// is the default for tiers and policies without a contact. "" means none.
	Contact string
	// Headers configures the response headers that report limits.
	Headers Headers
	// LogAdmissions is the maximum number of allowed requests that a guard logs per second, at
	// level INFO. LogDenials is the maximum number of denied requests, at level WARN. 0 logs none,
	// and nil means 5 per second. If LogAdmissions is nil, the level of allowed requests is DEBUG.
	LogAdmissions, LogDenials *int
	// Source is a value that a program can store here and get back from a set with [Set.Spec].
	// Package config stores its *config.Config. This package does not use it.
	Source any
}

// Identity is a way to identify callers. Exactly one of Claim, Header, Cookie and All must be set.
type Identity struct {
	// Claim, Header or Cookie is the name of the claim, header or cookie that identifies the
	// caller.
	Claim, Header, Cookie string
	// All combines several identities into one.
	All []string
	// Type is the first part of subjects, such as "user" in "user:42"; "" means the identity's
	// name.
	Type string
	// If Plain is true, keys and logs show the value of the header or cookie. Otherwise they show
	// its hash.
	Plain bool
}

// Tier is a group of callers and their limits.
type Tier struct {
	Name string
	// Match selects the requests that belong to the tier, and Unless excludes some of them. A nil
	// Match selects all. The request must also have one of the tier's identities.
	Match, Unless *Match
	// Identity lists the identities that distinguish the members of the tier. The first one that a
	// request has is used.
	Identity []string
	// Scope is the scope in which a member's requests are counted. With a name such as "api", all
	// requests of a member share one count; the default is "global". With "none", the scope is
	// empty. With "route", each route has its own count, so that a member gets the limits once per
	// route.
	Scope string
	// Limits apply to the number of requests, and Budget to the sum of their costs. Nil means not
	// set, and an empty list means explicitly unlimited. See [Limits].
	Limits, Budget []Limit
	// Notify lists percentages of these limits, in ascending order. When a member has used one of
	// these percentages of a limit, the observer of a guard receives a [Threshold]. 100 is reached
	// at the first denial. Notify applies to fixed and calendar limits with a window of a minute or
	// more. The tier must have at least one such limit. Limits in shadow are not reported.
	Notify []int
	// If Shadow is true, limits count requests and report which ones they would deny, but never
	// deny them. Rollout is the share of members for which limits are enforced, from 0 (none) to 1
	// (all); nil means 1.
	Shadow  bool
	Rollout *float64
	// Bans and Failure replace the settings of the spec for this tier; nil keeps them.
	Bans    *stint.BanPolicy
	Failure *stint.FailurePolicy
	// Contact is shown to callers that are denied by the tier's limits, or by a policy without a
	// contact; "" means the contact of the spec.
	Contact string
}

// Policy limits the requests that it matches.
type Policy struct {
	Name string
	// Match selects the requests that the policy applies to, and Unless excludes some of them. A
	// nil Match selects all requests.
	Match, Unless *Match
	// Skip exempts matching requests from all limits and bans.
	Skip bool
	// Identity lists the identities by which requests are counted. The first one that a request has
	// is used. If Identity is empty, requests are counted by the identity that their tier uses.
	Identity []string
	// Per lists the attributes by which requests are counted separately: "method", "host", "route",
	// or a variable of the path.
	Per []string
	// Limits apply to the number of requests, and Budget to the sum of their costs. Nil means not
	// set, and an empty list means explicitly unlimited. See [Limits].
	Limits, Budget []Limit
	// TierLimits and TierBudget set limits by tier name, instead of Limits and Budget. "default"
	// stands for all tiers that are not named. The policy does not apply to tiers for which neither
	// has an entry.
	TierLimits, TierBudget map[string][]Limit
	// Notify lists percentages of the limits at which their use is reported, as in a [Tier].
	Notify []int
	// Cost is the cost of a request; nil means 1.
	Cost *Cost
	// Costs holds the costs, by limit name, of limits whose cost differs from Cost. For example,
	// {"input_tokens": 2000} charges 2,000 units to a budget named "input_tokens".
	Costs stint.Costs
	// If Hold is set, the costs are estimates, which the store holds while the request is served.
	// Hold is the longest time between heartbeats; see [stint.Request.Hold]. [Guard.Follow] sends
	// the heartbeats. After the response, it charges the true cost according to SettleHeader,
	// SettleBytes or Usage. If the response does not report its true cost, it charges the estimate.
	// If Hold is 0, nothing is held.
	Hold time.Duration
	// Usage makes budgets count the tokens of requests to a language model. If it is nil, they do
	// not count tokens. With Usage, Hold is 5 minutes by default, and Cost must be nil.
	Usage *TokenUsage
	// SettleHeader is the response header that reports the true cost. Budgets are then corrected to
	// this cost. The header is removed from the response. SettleBytes is an alternative: the number
	// of bytes of response body that cost one unit.
	SettleHeader string
	SettleBytes  int64
	// MaxDebt bounds the debt of a limit that is a bucket or has a burst: a true cost raises the
	// limit's usage above its capacity by at most MaxDebt. 0 means the capacity of each limit. All
	// other limits are charged the whole true cost.
	MaxDebt int64
	// Refund lists the statuses after which the whole charge is given back: 404 stands for that
	// status, and 5 for all of 500 to 599.
	Refund []int
	// RequestID and RequestIDLife replace the settings of the spec.
	RequestID     string
	RequestIDLife time.Duration
	// If RequestIDDerive is set, requests without an id get one that is derived from the caller,
	// method, host, path, query and body. Equal requests within this time, such as those of a
	// double click, are charged once. The maximum is 10 s; 0 means that no ids are derived.
	RequestIDDerive time.Duration
	// If Shadow is true, limits count requests and report which ones they would deny, but never
	// deny them. Rollout is the share of subjects for which limits are enforced, from 0 (none) to 1
	// (all); nil means 1.
	Shadow  bool
	Rollout *float64
	// Failure determines what happens to matching requests when the store fails; nil means the
	// failure policy of the tier.
	Failure *stint.FailurePolicy
	// Contact is shown to callers that the policy's limits deny; "" means the contact of the tier.
	Contact string
}

// defaultTier is the key in TierLimits and TierBudget for all tiers that they do not name.
const defaultTier = "default"

// LimitsFor returns the limits and the budget of the policy in a tier, and whether the policy
// applies there. A policy with limits or a budget applies only to tiers for which it has some.
func (p *Policy) LimitsFor(tier string) (limits, budget []Limit, applies bool) {
	limits, limited := limitsFor(tier, p.Limits, p.TierLimits)
	budget, budgeted := limitsFor(tier, p.Budget, p.TierBudget)
	return limits, budget, limited || budgeted || !p.limited()
}

func limitsFor(tier string, all []Limit, byTier map[string][]Limit) (limits []Limit, ok bool) {
	if byTier == nil {
		return all, all != nil
	}
	if limits, ok = byTier[tier]; !ok {
		limits, ok = byTier[defaultTier]
	}
	return limits, ok
}

func (p *Policy) budgets() []Limit {
	return slices.Concat(append(slices.Collect(maps.Values(p.TierBudget)), p.Budget)...)
}

// limited reports whether limits or budgets are set, even if they are explicitly unlimited.
func (p *Policy) limited() bool {
	return p.Limits != nil || p.TierLimits != nil || p.Budget != nil || p.TierBudget != nil
}

// Match matches a request that fits all of its non-empty fields.
type Match struct {
	// Host, Path and Method list patterns such as "*.example.com", "/users/{id}" and "GET". Each
	// field fits if any of its elements does.
	Host, Path, Method []string
	// Header and Claim map names to the accepted values; "*" accepts any value.
	Header, Claim map[string][]string
	// Network lists addresses, networks, "loopback" and "private". It fits if any of them contains
	// the client's address.
	Network []string
}

// Cost is the cost of a request.
type Cost struct {
	// Units is the cost. If Header is set, it is the cost of requests whose header is missing or
	// not a number.
	Units int64
	// Header is the request header that states the cost. Any client can set it, so Min and Max
	// bound the cost.
	Header   string
	Min, Max int64
}

// Headers configures the response headers that report limits. The zero value sends the X-RateLimit
// fields and, if all callers share a limit, lengthens Retry-After by up to a fifth.
type Headers struct {
	// OmitX leaves out the X-RateLimit fields. Draft11 adds the RateLimit and RateLimit-Policy
	// fields of the IETF draft.
	OmitX, Draft11 bool
	// ResetDelta makes X-RateLimit-Reset the number of seconds from now, not since 1970.
	ResetDelta bool
	// Jitter is the largest random addition to Retry-After, as a fraction of the wait, such as 0.1.
	// It applies if all callers share the denying limit, so that they do not all retry at once. 0
	// means no addition, and nil means 0.2. For all other limits, Retry-After is exact.
	Jitter *float64
}
