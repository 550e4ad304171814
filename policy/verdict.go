package policy

import (
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/denialid"
	"github.com/stint-limiter/stint/internal/tokens"
)

// Verdict is what was decided on a request, and why. The zero value is ready for [Guard.Decide],
// and a verdict can be used again for another request. Its names come from the configuration, never
// from the request.
//
// A verdict is also the event that a guard sends to its observer.
type Verdict struct {
	// Decision is the store's answer on the rules that are enforced. If there are none, the request
	// is allowed and Decision has no usages.
	Decision stint.Decision
	// Results holds the result of every rule that took part: first those that are enforced, in the
	// order of the decision's claims, then those in shadow.
	Results []Result
	// Set is the set in force when the request was decided. It is nil for a verdict that no guard
	// made.
	Set *Set
	// Tier is the request's tier. Route is the first policy that matched it by more than its tier,
	// or "".
	Tier, Route string
	// Skipped is the policy that exempts the request from everything, or "".
	Skipped string
	// UnknownClient says that the client's address matters, for an identity or a network, and that
	// the request does not tell it. Such requests share the subject "ip:unknown".
	UnknownClient bool
	// Cost is what the request costs, in units of budgets.
	Cost int64
	// SettleHeader is the response header that holds the true cost of the request, or "".
	// SettlesBytes says that the length of the response body is its true cost.
	SettleHeader string
	SettlesBytes bool
	// Took is how long the decision took. It is 0 if it was not timed: reading the clock twice is a
	// tenth of the work of a decision in memory, so a guard times the first 32 of every 20 ms.
	Took time.Duration
	// Err is why there is no decision, or nil.
	Err error

	enforced   int              // how many results are enforced; they come first
	shadow     []stint.Decision // the answers on the results in shadow
	who        string           // the subject; one that asks again need not be named anew
	began      time.Duration    // see [stopwatch]
	after      *after
	enforceAll bool // see [GuardConfig]
	overrides  Overrides
	waited     bool        // for the request's Content
	follows    bool        // it was decided by [Guard.Decide]
	denial     denialid.ID // 0 until somebody asks for it

	usage           *tokens.Rules // how tokens are counted; nil if they are not
	fixed           stint.Costs   // of limits that do not count tokens
	estimated, used tokens.Counts
	meter           *tokens.Meter // of the response
	known           *tokens.Known // nil for a request that is not replayed
	unsaid          bool          // the response does not say what was used

	claims     []stint.Claim // of the request
	resultRoom [3]Result
	claimRoom  [3]stint.Claim
}

// Event implements [stint.Event].
func (*Verdict) Event() {}

// Result is what one rule had to say about a request.
type Result struct {
	// Rule is the rule.
	Rule *Rule
	// Claim is who was counted and what was charged. Its Limits are those of the rule, with the
	// numbers of the request's claims, or the strictest of them for a request that can be read in
	// several ways.
	stint.Claim
	// Usages are those of Limits, in the same order, a part of the verdict. There are none if the
	// store was not asked, or failed.
	Usages []stint.Usage
	// Denied says that the rule denied the request or, in shadow, would have denied it.
	Denied bool
	// Shadow says that the rule has no consequences. The store is asked about it if the request is
	// allowed.
	Shadow bool
}

// State returns the ith of the limits with its usage.
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

// Decisive returns the enforced result that matters most to the caller, as [Result.Decisive]
// compares limits. It is nil if nothing limits the request, or if nothing is known about any limit.
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

// Subject returns who the verdict is about: the subject that was denied or, in shadow, would have
// been; for other requests the first that is limited. It is "" if nothing limits the request.
func (v *Verdict) Subject() string {
	if r := v.about(); r != nil {
		return r.Claim.Subject
	}
	return ""
}

// AppendDenialID appends the id that the answer to a denied request has, for "stint why": all
// denials of a subject in one second have the same. It appends nothing if the request was not
// denied.
func (v *Verdict) AppendDenialID(b []byte) []byte {
	if v.Err != nil || v.Decision.Allowed {
		return b
	}
	if v.denial == 0 {
		v.denial = denialid.New(time.Now(), v.Subject())
	}
	return v.denial.Append(b)
}

// about returns the result that the verdict is about, or nil.
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

// reset prepares the verdict for another request. It keeps its memory, and leaves alone what is
// always set: to clear all of a kilobyte would be a fifth of the work of skipping a request.
func (v *Verdict) reset(set *Set) {
	v.Results = v.Results[:0]
	if cap(v.Results) <= len(v.resultRoom) {
		v.Results = v.resultRoom[:0]
	}
	if v.claims = v.claims[:0]; cap(v.claims) <= len(v.claimRoom) {
		v.claims = v.claimRoom[:0]
	}
	v.Decision = stint.Decision{Allowed: true} // if nothing is asked
	v.Set, v.Tier, v.Route, v.Skipped, v.Cost, v.Took, v.Err = set, "", "", "", 0, 0, nil
	v.SettleHeader, v.SettlesBytes, v.UnknownClient = "", false, false
	v.enforced, v.shadow, v.began, v.after, v.waited = 0, v.shadow[:0], untimed, nil, false
	v.follows, v.denial = false, 0
	v.usage, v.fixed, v.meter, v.known, v.unsaid = nil, nil, nil, nil, false
}

// spread gives each result that is enforced its part of the store's answer.
func (v *Verdict) spread() {
	d := &v.Decision
	for v.enforced < len(v.Results) && !v.Results[v.enforced].Shadow {
		v.enforced++ // of a verdict that was not asked for by [Guard.Ask]
	}
	usages := d.Usages()
	for i := range v.Results[:v.enforced] {
		r := &v.Results[i]
		n := min(len(r.Limits), len(usages))
		r.Usages, usages = usages[:n:n], usages[n:]
		r.Denied = !d.Allowed && (d.Banned && int(d.Denier) == i+1 || slices.ContainsFunc(r.Usages, hasNoRoom))
	}
}

func hasNoRoom(u stint.Usage) bool { return u.RetryAfter != 0 }
