package policy

import (
	"iter"

	"time"

	"github.com/stint-limiter/stint"
)

// Verdict is what was decided on a request, and why. The zero value is ready for
// [Guard.Decide], and so is one that is done with. Its names come from the configuration, never from the request.
type Verdict struct {
	// Decision is the store's. Without any limits to ask about it is an allowance without usages.
	Decision stint.Decision
	// Tier is the request's tier, and Route the first policy that matched it by more than its tier; "" if none did.
	Tier, Route string
	// Skipped is the policy that exempts the request from everything, or "".
	Skipped string
	// Cost is what the request costs, in units of budgets.
	Cost int64
	// Shadowed are the rules in shadow that would have denied the request.
	Shadowed []*Rule

	set     *Set
	slot    int
	who     string        // is asking; the same one need not be named anew next time
	began   time.Duration // see [stopwatch]
	rules   []*Rule       // of each claim
	after   *after
	pending []shadowClaim  // what to ask about once the request is allowed
	shadow  []shadowCharge // what came of it

	enforceAll bool // see [GuardConfig.EnforceAll]

	ruleRoom [3]*Rule
	andRoom  [2]stint.Claim
}

// shadowClaim is a rule that has no consequences, and what it would be charged.
type shadowClaim struct {
	rule  *Rule
	claim stint.Claim
}

// shadowCharge is what a rule in shadow was charged.
type shadowCharge struct {
	rule   *Rule
	charge stint.Charge
}

// Set is the set that the request was judged by; nil before that.
func (v *Verdict) Set() *Set { return v.set }

// Subject returns who the verdict is about: the subject that was denied or, but for shadow, would have been, and
// for others the first that is limited. It is "" if nothing limits the request.
func (v *Verdict) Subject() string {
	d := &v.Decision
	if d.Allowed && len(v.Shadowed) > 0 {
		for i := range v.pending {
			if v.pending[i].rule == v.Shadowed[0] {
				return v.pending[i].claim.Subject
			}
		}
	}
	if and := d.Charge.And(); d.Decider > 0 && int(d.Decider) <= len(and) {
		return and[d.Decider-1].Subject
	}
	return d.Charge.Claim.Subject
}

// Rules returns what was asked of the store, in the order of the decision's usages: those of the limits of the
// first rule, then those of the second and so on.
func (v *Verdict) Rules() []*Rule { return v.rules }

// Decisive returns the rule and the state that matter most to the caller; see
// [stint.Decision.Decisive]. The rule is nil if nothing limits the request.
func (v *Verdict) Decisive() (*Rule, stint.State) {
	s := v.Decision.Decisive()
	for _, r := range v.rules {
		for i := range r.Limits {
			if s.Limit == &r.Limits[i] {
				return r, s
			}
		}
	}
	return nil, s
}

// Trials yields the rules in shadow that are for the request, with whom each counts it for. They are asked about what all
// others allow; those that would have denied it are Shadowed.
func (v *Verdict) Trials() iter.Seq2[*Rule, string] {
	return func(yield func(*Rule, string) bool) {
		for i := range v.pending {
			if !yield(v.pending[i].rule, v.pending[i].claim.Subject) {
				return
			}
		}
	}
}

// SettlesBytes says that the length of the response body is the true cost of this request.
func (v *Verdict) SettlesBytes() bool { return v.after != nil && v.after.bytes > 0 }

// SettleHeader is the response header that says the true cost of this request, or "".
func (v *Verdict) SettleHeader() string {
	if v.after == nil {
		return ""
	}
	return v.after.header
}
