package api

import (
	"errors"
	"slices"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/nearest"
	"github.com/stint-limiter/stint/policy"
)

// question is what a body comes to, and in the end the answer.
type question struct {
	set     *policy.Set
	mode    stint.Mode
	verdict *policy.Verdict // by attributes; else nil
	request stint.Request
	// rules are those of the request's claims. Without any there is nothing to ask.
	rules []*policy.Rule

	tier, route, skipped string
	cost                 int64
	// priced are the claims that count the cost, as bits.
	priced uint16

	decision stint.Decision
	err      error
}

// ask reads a question. It is nil if there are mistakes in it, of which the reader is told.
func (a *API) ask(r *reader, with *reading, mode stint.Mode, known []string) *question {
	k, ok := r.ask(mode, known)
	if !ok {
		return nil
	}
	return a.question(r, with, k)
}

// question makes a question of what a body says.
func (a *API) question(r *reader, with *reading, k *ask) *question {
	q := &question{set: with.set, mode: k.mode, decision: stint.Decision{Allowed: true}, cost: 1}
	if k.says("cost") {
		q.cost = k.cost
	}
	switch {
	case k.form() == byAttributes:
		a.byAttributes(r, q, k)
	case k.says("limits"):
		a.byLimits(r, q, with, k)
	default:
		q.byName(r, with, k)
	}
	if len(q.rules) == 0 {
		return q
	}
	q.request.Mode, q.request.MaxWait = q.mode, k.maxWait
	if k.says("id") {
		q.request.ID = k.id
	}
	r.invalid(q.request.Validate())
	return q
}

// invalid tells of all that is wrong with a request as a whole.
func (r *reader) invalid(err error) {
	for _, m := range mistakesOf(err) {
		r.wrong("%s", m.Message)
	}
}

// mistakesOf returns what an error lists; none if it is nil.
func mistakesOf(err error) (list []mistake) {
	if err == nil {
		return nil
	}
	var invalid *stint.InvalidError
	if errors.As(err, &invalid) {
		err = invalid.Err
	}
	for line := range strings.Lines(err.Error()) {
		list = append(list, mistake{Message: "cannot be decided: " + strings.TrimSuffix(line, "\n")})
	}
	return list
}

// byAttributes is a question about a request that is judged by the policies.
func (a *API) byAttributes(r *reader, q *question, k *ask) {
	in := &policy.Input{Method: k.method, Host: k.host, Path: k.path, RawPath: k.rawPath, Peer: k.peer, Header: k.headers}
	if k.claims != nil {
		in.Claims = k.claims
	}
	v := new(policy.Verdict)
	if err := a.guard.Ask(in, v, &q.request); err != nil {
		r.invalid(err)
		return
	}
	if k.says("cost") {
		v.Cost = k.cost
	}
	q.set, q.verdict = v.Set(), v
	q.tier, q.route, q.skipped, q.rules, q.cost = v.Tier, v.Route, v.Skipped, v.Rules(), v.Cost
	for i, rule := range q.rules {
		q.price(i, rule)
	}
	q.checkCost(r, k)
}

// byName is a question about a subject that is held to what a policy or a tier says.
func (q *question) byName(r *reader, with *reading, k *ask) {
	known := true
	expect := func(field, name string, names []string) {
		if name != "" && !slices.Contains(names, name) {
			r.wrongIn(field, "there is no %s %q%s", field, shown(name), nearest.Hint(name, names))
			known = false
		}
	}
	expect("policy", k.policy, with.set.Policies())
	expect("tier", k.tier, with.set.Tiers())
	if !known {
		return
	}
	q.tier = k.tier
	scope := k.policy
	switch {
	case k.says("scope"):
		scope = k.scope
	case k.policy == "":
		scope = with.set.ScopeOf(k.tier)
	}
	rules, same := with.named[ruleName{k.policy, k.tier}]
	if !same && k.tier == "" {
		r.wrongIn("tier", "is missing: the policy %q has other limits for each; want one of %s", k.policy, strings.Join(with.set.Tiers(), ", "))
		return
	}
	for _, rule := range rules {
		q.claim(k.subject, scope, rule)
	}
	q.checkCost(r, k)
	failure := with.set.FailureOf(k.policy, k.tier)
	q.request.Bans, q.request.Failure = &stint.BanPolicy{}, &failure
}

// checkCost tells of a cost that would make no difference.
func (q *question) checkCost(r *reader, k *ask) {
	if k.says("cost") && k.cost != 1 && len(q.rules) > 0 && q.priced == 0 {
		r.wrongIn("cost", "nothing here counts costs: limits count requests; give it a budget")
	}
}

// adHocName is what answers call limits of the caller's own.
const adHocName = "limits"

// byLimits is a question about a subject that is held to limits of the caller's own.
func (a *API) byLimits(r *reader, q *question, with *reading, k *ask) {
	if !a.config.AdHoc {
		r.wrongIn("limits", "limits of the caller's own are not accepted here; name a policy or a tier, or set the server up for them")
		return
	}
	q.claim(k.subject, k.scope, &policy.Rule{Policy: adHocName, Limits: k.limits, Costs: true, Index: -1})
	failure := with.set.Failure()
	q.request.Bans, q.request.Failure = &stint.BanPolicy{}, &failure
}

// everyone is the subject of all callers together, whom nobody bans.
const everyone = "everyone"

// claim adds a claim on a subject.
func (q *question) claim(subject, scope string, rule *policy.Rule) {
	c := stint.Claim{Subject: subject, Scope: scope, Limits: rule.Limits, Cost: 1, Shared: subject == everyone}
	if len(q.rules) == 0 {
		q.request.Claim = c
	} else {
		q.request.And = append(q.request.And, c)
	}
	q.rules = append(q.rules, rule)
	q.price(len(q.rules)-1, rule)
}

// price has the ith claim cost what the request does, if its rule counts costs.
func (q *question) price(i int, rule *policy.Rule) {
	if rule.Costs {
		q.request.ClaimAt(i).Cost = q.cost
		q.priced |= 1 << i
	}
}
