package policy

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/denialid"
	"github.com/stint-limiter/stint/internal/tokens"
)

// Verdict is the decision on a request, with its reasons. The zero value is ready for
// [Guard.Decide], and a verdict can be reused for another request. Names in a verdict come from the
// configuration, never from the request.
//
// A verdict is also the event that a guard sends to its observer.
type Verdict struct {
	// Decision is the store's decision on the enforced rules. If no rule is enforced, the request
	// is allowed and Decision has no usages.
	Decision stint.Decision
	// Results holds the result of every rule that applied: first the enforced ones, in the order of
	// the decision's claims, then those in shadow.
	Results []Result
	// Set is the set that decided the request. It is nil if no guard made the verdict.
	Set *Set
	// Tier is the name of the request's tier. Route is the name of the first matching policy whose
	// match has a path, a method or a host; "" if there is none.
	Tier, Route string
	// Skipped is the name of the policy that exempts the request from all limits and bans, or "".
	Skipped string
	// UnknownClient is true if an identity or the Network of a [Match] needs the client's address,
	// but the address is not known. Such requests share the subject "ip:unknown".
	UnknownClient bool
	// Cost is the cost of the request under budgets, as a number of units.
	Cost int64
	// SettleHeader is the response header that reports the true cost of the request, or "".
	// SettlesBytes reports that the length of the response body determines the true cost.
	SettleHeader string
	SettlesBytes bool
	// Took is the duration of the decision, or 0 if it was not timed. Reading the clock twice takes
	// a tenth as long as a decision in memory, so a guard times only the first 32 decisions in
	// every 20 ms.
	Took time.Duration
	// Err is the reason why there is no decision; nil if there is one.
	Err error

	enforced   int              // number of enforced results, which come first
	shadow     []stint.Decision // decisions on the results in shadow
	who        string           // subject that the tier counts; reused for the next request if equal
	began      time.Duration    // see [stopwatch]
	after      *after
	atLeast    bool // a true cost below the charge gives nothing back
	enforceAll bool // see [GuardConfig]
	overrides  Overrides
	waited     bool        // the decision waited for the request's Content
	follows    bool        // set by [Guard.Decide], whose callers call [Guard.Follow]
	denial     denialid.ID // 0 until first needed

	usage           *tokens.Rules // rules for counting tokens; nil if they are not counted
	fixed           stint.Costs   // fixed costs of limits that do not count tokens
	estimated, used tokens.Counts
	meter           *tokens.Meter
	known           *tokens.Known // nil for a request that is not replayed
	unsaid          bool          // the response does not report its usage
	reported        bool          // the observer receives the settled hold

	claims     []stint.Claim
	resultRoom [3]Result
	claimRoom  [3]stint.Claim
}

// Event implements [stint.Event].
func (*Verdict) Event() {}

// Result is the outcome of one rule for a request.
type Result struct {
	// Rule is the rule that was applied to the request.
	Rule *Rule
	// Claim holds the subject that was counted and the cost that was charged. Its Limits are the
	// rule's limits, with the effects of claims and overrides. If the request has several readings,
	// limits that share a count with a stricter limit are left out.
	stint.Claim
	// Usages are the usages of Limits, in the same order. They are stored in the verdict's own
	// memory, so they are valid only until the verdict is reused. Usages is empty if the store was
	// not asked or failed.
	Usages []stint.Usage
	// Denied reports that the rule denied the request or, in shadow, would have denied it.
	Denied bool
	// Shadow reports that the rule is not enforced. The store is asked about such a rule only if
	// the request is allowed.
	Shadow bool
}

// State returns limit i with its usage.
func (r *Result) State(i int) stint.State {
	return stint.State{Limit: &r.Limits[i], Usage: r.Usages[i], Cost: r.CostOf(&r.Limits[i])}
}

// Decisive returns the limit that matters most to the caller; see [stint.State.Outweighs].
func (r *Result) Decisive() stint.State {
	var best stint.State
	for i := range min(len(r.Limits), len(r.Usages)) {
		if s := r.State(i); i == 0 || s.Outweighs(best) {
			best = s
		}
	}
	return best
}

// Decisive returns the enforced result that matters most to the caller, by the same criteria as
// [Result.Decisive]. It returns nil if nothing limits the request, or if no usage is known.
func (v *Verdict) Decisive() *Result {
	var best *Result
	var least stint.State
	for i := range v.Results {
		r := &v.Results[i]
		if r.Shadow || len(r.Usages) == 0 {
			continue
		}
		if s := r.Decisive(); best == nil || s.Outweighs(least) {
			best, least = r, s
		}
	}
	return best
}

// shadowed returns the first result in shadow that would have denied the request, or nil.
func (v *Verdict) shadowed() *Result {
	for i := range v.Results {
		if r := &v.Results[i]; r.Shadow && r.Denied {
			return r
		}
	}
	return nil
}

// Subject returns the subject that was denied or, in shadow, would have been denied. If there is
// none, it returns the first subject that is limited, or "" if nothing limits the request.
func (v *Verdict) Subject() string {
	if r := v.about(); r != nil {
		return r.Claim.Subject
	}
	return ""
}

// AppendDenialID appends the denial id, which the response to a denied request contains for use
// with the command "stint why". If a subject is denied several times within one second, the ids are
// the same. If the request was not denied, nothing is appended.
func (v *Verdict) AppendDenialID(b []byte) []byte {
	if v.Err != nil || v.Decision.Allowed {
		return b
	}
	if v.denial == 0 {
		v.denial = denialid.New(time.Now(), v.Subject())
	}
	return v.denial.Append(b)
}

// about returns the result that denied the request or, in shadow, would have denied it. Otherwise
// it returns the first enforced result, or nil if there is none.
func (v *Verdict) about() *Result {
	if v.Decision.Allowed {
		if r := v.shadowed(); r != nil {
			return r
		}
	}
	if i := max(int(v.Decision.Denier)-1, 0); i < len(v.Results) && !v.Results[i].Shadow {
		return &v.Results[i]
	}
	return nil
}
