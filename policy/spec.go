package policy

import (
	"time"

	"github.com/stint-limiter/stint"
)

// Spec describes a set of policies. [New] makes a [Set] of it. A field that is zero is not set, here
// and in all types below, and has its default. Where 0 or an empty list is a setting too, the field
// is a pointer or a slice, and nil is not set. Package config reads a Spec from YAML.
type Spec struct {
	// Failure is what happens when the store fails, unless a tier or a policy has its own.
	Failure stint.FailurePolicy
	// TrustedProxies are the peers whose word is taken about where a request comes from: addresses,
	// networks, "loopback", "private" and "unix". Without any the client is the peer.
	TrustedProxies []string
	// ClientHeader is the one header in which they name the client; "" is X-Forwarded-For.
	ClientHeader string
	// IPv4Prefix and IPv6Prefix are how many leading bits of an address are one client; 0 is 32
	// and 64.
	IPv4Prefix, IPv6Prefix int
	// Claims are facts that trusted proxies assert in headers: the claim's name, then the header's.
	// Those that the application passes ([Input.Claims]) are not listed.
	Claims map[string]string
	// Identities are ways to tell who is asking, by name, beside those that are always there: "ip",
	// "user" and "everyone".
	Identities map[string]Identity
	// Tiers say who may do how much. A request belongs to the first one that fits; the last one
	// must take everybody.
	Tiers []Tier
	// Policies say what may be done how often, beside the limits of the tier. Every policy that
	// matches applies.
	Policies []Policy
	// Bans are for subjects that keep being denied; nil makes none and applies none.
	Bans *stint.BanPolicy
	// RequestID is the header that identifies a request, so that repeats are not charged again; ""
	// is none. RequestIDLife is how long an id is remembered; 0 is the shortest window of the
	// request's first limits.
	RequestID     string
	RequestIDLife time.Duration
	// Contact is where somebody who is denied can ask for more: a text, or a URL (http, https,
	// mailto). Denials show it. It is for what has no contact of its own; "" is none.
	Contact string
	// Headers says what responses say about limits.
	Headers Headers
	// LogAdmissions and LogRejections are how many requests that are allowed a guard logs per
	// second, at the level INFO, and how many that are denied, at WARN; 0 is none. A nil one is
	// five, and for those that are allowed at the level DEBUG.
	LogAdmissions, LogRejections *int
	// Source is what the spec was made from, for those who want it back from a set: package config
	// leaves its *config.Config here. The engine does not look at it.
	Source any
}

// Identity is a way to tell who is asking. It has exactly one of Claim, Header, Cookie and All.
type Identity struct {
	// Claim, Header or Cookie is the name of what identifies the caller.
	Claim, Header, Cookie string
	// All are several identities together.
	All []string
	// Type is what subjects begin with; "" is the identity's name.
	Type string
	// Plain shows the value of a header or cookie in keys and logs. Otherwise a hash stands for it.
	Plain bool
}

// Tier is a group of callers and what they may do.
type Tier struct {
	Name string
	// Match says who belongs to it, nil is everybody who has its identity, and Unless who does not.
	Match, Unless *Match
	// Identity tells its members apart: the first of these that a request has.
	Identity []string
	// Scope is the part of a member that is counted: a name such as "api" for one count of all its
	// requests, "global" by default, or "none" for one without a name. "route" counts each route by
	// itself, so that a member gets the limits once for every route.
	Scope string
	// Limits are on the number of requests, Budget on the sum of their costs. Nil is not set; an
	// empty list is explicitly unlimited. See [Limits].
	Limits, Budget []Limit
	// Notify are shares of these limits, in percent and in ascending order, that the observer of a
	// guard is told of when a member has used them: 80, and 100 for the first denial. They are
	// those of fixed and calendar limits with a window of a minute or more, of which there has to
	// be one. Limits in shadow are not reported. See [Threshold].
	Notify []int
	// Shadow decides and counts, but denies no one. Rollout is the share of members for whom limits
	// are enforced, from 0 to 1; 0 is all of them.
	Shadow  bool
	Rollout float64
	// Bans and Failure are for this tier instead of those of the spec; nil are the spec's.
	Bans    *stint.BanPolicy
	Failure *stint.FailurePolicy
	// Contact is for callers denied by the tier's limits, or by a policy without a contact; "" is
	// the spec's.
	Contact string
}

// Policy is what may be done how often.
type Policy struct {
	Name string
	// Match says which requests it is for, nil is all of them, and Unless which it is not for.
	Match, Unless *Match
	// Skip exempts requests that match from everything.
	Skip bool
	// Identity says whose requests are counted together: the first of these that a request has.
	// Without any it is the identity in the request's tier.
	Identity []string
	// Per is what else divides the count: "method", "host", "route", or a variable of the path.
	Per []string
	// Limits are on the number of requests, Budget on the sum of their costs. Nil is not set; an
	// empty list is explicitly unlimited. See [Limits].
	Limits, Budget []Limit
	// TierLimits and TierBudget are instead of Limits and Budget for each tier by its name, with
	// "default" for the tiers that are not named. The policy is not for tiers that neither has
	// anything for.
	TierLimits, TierBudget map[string][]Limit
	// Notify are shares of the limits that are reported, as in a [Tier].
	Notify []int
	// Cost is what a request costs; nil is 1.
	Cost *Cost
	// Costs are those of limits with a name, by that name, where they differ from Cost: the
	// quantities of budgets such as "input_tokens: 1000000/1d".
	Costs stint.Costs
	// Hold says that the costs are estimates, and how long a request may go on without a sign of
	// life; see [stint.Request.Hold]. [Guard.Follow] gives the signs of life, and charges the true
	// cost in the end: that of SettleHeader or SettleBytes, else the estimate. 0 holds nothing.
	Hold time.Duration
	// Usage has budgets count the tokens of requests to a language model; nil does not. The hold is
	// then 5 minutes unless set, and Cost is nil.
	Usage *Usage
	// SettleHeader is the response header that says the true cost, by which budgets are corrected.
	// It is removed from the response. Or SettleBytes is how much of the response body is a unit of
	// the true cost.
	SettleHeader string
	SettleBytes  int64
	// MaxDebt is how many units above its capacity a true cost may take a budget that is a bucket
	// or has a burst; 0 is one capacity of each limit. Other budgets take the whole cost.
	MaxDebt int64
	// Refund are statuses after which everything charged is given back: 404, or 5 for all of 500
	// to 599.
	Refund []int
	// RequestID and RequestIDLife are instead of the spec's.
	RequestID     string
	RequestIDLife time.Duration
	// RequestIDDerive has requests without an id get one that is derived from who sends them, their
	// method, host, path, query and body: equal requests within this time, such as those of a
	// double click, are charged once. It is 10 s at most; 0 derives none.
	RequestIDDerive time.Duration
	// Shadow decides and counts, but denies no one. Rollout is the share of subjects for whom
	// limits are enforced, from 0 to 1; 0 is all of them.
	Shadow  bool
	Rollout float64
	// Failure is what happens when the store fails, for requests that match; nil is the tier's.
	Failure *stint.FailurePolicy
	// Contact is for callers denied by the policy's limits; "" is the tier's.
	Contact string
}

// Match fits a request that fits every field of it that is set.
type Match struct {
	// Host, Path and Method fit if one of their elements does: "*.example.com", "/users/{id}",
	// "GET".
	Host, Path, Method []string
	// Header and Claim are values by name, one of which fits; "*" is any value.
	Header, Claim map[string][]string
	// Network has addresses, networks, "loopback" and "private", one of which the client's address
	// is in.
	Network []string
}

// Cost is what a request costs.
type Cost struct {
	// Units is the cost, or that of a request without the Header or with one that is not a number.
	Units int64
	// Header is the request header that says the cost, between Min and Max. Anybody can write it.
	Header   string
	Min, Max int64
}

// Headers says what responses say about limits. The zero value is X-RateLimit fields, and a jitter
// of a fifth where a limit is shared.
type Headers struct {
	// OmitX leaves out the X-RateLimit fields. Draft11 adds RateLimit and RateLimit-Policy of the
	// IETF draft.
	OmitX, Draft11 bool
	// ResetDelta has X-RateLimit-Reset count from now and not from 1970.
	ResetDelta bool
	// Jitter is the largest share that is added to Retry-After if a limit that all callers share
	// denied, so that they do not come back together: 0.1 is a tenth, 0 is none, and nil is a fifth.
	// The Retry-After of any other limit is exact.
	Jitter *float64
}
