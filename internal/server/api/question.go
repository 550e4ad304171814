package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/setinfo"
	"github.com/stint-limiter/stint/policy"
)

// question is a request and, once it has been decided, its verdict.
type question struct {
	mode    stint.Mode
	named   bool // whether the body names the subject; if not, the policies determine it
	api     bool // whether the request is for a call to a third-party API
	request stint.Request
	// verdict has a result for each claim. If no claim is enforced, the store is not called.
	verdict policy.Verdict
}

func (q *question) claims() int {
	n := 0
	for n < len(q.verdict.Results) && !q.verdict.Results[n].Shadow {
		n++
	}
	return n
}

// priced returns a bit set: bit i is set if claim i counts costs instead of requests.
func (q *question) priced() (bits uint16) {
	for i := range q.claims() {
		if q.verdict.Results[i].Rule.Costs {
			bits |= 1 << i
		}
	}
	return bits
}

// ask reads a question. If r then has mistakes, the question must not be used.
func (a *API) ask(r *reader, with *reading, mode stint.Mode, known []string) *question {
	k, ok := r.ask(mode, known)
	if !ok {
		return nil
	}
	return a.question(r, with, k)
}

func (a *API) question(r *reader, with *reading, k *ask) *question {
	q := &question{mode: k.mode}
	if k.form() == byAttributes {
		a.byAttributes(r, q, k)
	} else {
		a.bySubject(r, q, with, k)
	}
	if q.claims() == 0 {
		return q
	}
	q.request.Mode, q.request.MaxWait = q.mode, k.maxWait
	if k.says("id") {
		q.request.ID = k.id
	}
	switch {
	case k.says("hold_seconds"):
		q.request.Hold = k.hold
	case q.mode != stint.ModeTake && q.mode != stint.ModePeek: // a reported or booked cost is not an estimate
		q.request.Hold = 0
	}
	if k.waits {
		q.waits(k)
	}
	r.invalid(q.request.Validate())
	return q
}

// waits makes q wait until it is allowed. q becomes a booking unless it holds an estimate.
func (q *question) waits(k *ask) {
	q.request.ID, q.request.MaxWait = "", k.maxWait
	if q.request.Hold == 0 {
		q.request.Mode = stint.ModeReserve
	}
}

func (r *reader) invalid(err error) {
	for _, m := range mistakesOf(err) {
		r.wrong("%s", m.Message)
	}
}

func mistakesOf(err error) (list []mistake) {
	if err == nil {
		return nil
	}
	if invalid, ok := errors.AsType[*stint.InvalidError](err); ok {
		err = invalid.Err
	}
	for line := range strings.Lines(err.Error()) {
		list = append(list, mistake{Message: "cannot be decided: " + strings.TrimSuffix(line, "\n")})
	}
	return list
}

// byAttributes matches the attributes of an HTTP request against the policies, and fills in q.
func (a *API) byAttributes(r *reader, q *question, k *ask) {
	in := &policy.Input{Method: k.method, Host: k.host, Path: k.path, RawPath: k.rawPath, Peer: k.peer,
		Header: k.headers}
	if k.claims != nil {
		in.Claims = k.claims
	}
	v := &q.verdict
	if err := a.guard.Prepare(in, v, &q.request); err != nil {
		r.invalid(err)
		v.Results = nil
		return
	}
	if v.UnknownClient && !k.says("peer") {
		r.wrongIn("peer", "is missing; the configuration has a limit or a match by address that applies to this request")
	}
	if k.says("cost") {
		v.Cost = k.cost
		for i := range q.claims() {
			if result := &v.Results[i]; result.Rule.Costs {
				result.Cost = v.Cost
				q.request.Claims[i].Cost = v.Cost
			}
		}
	}
	q.checkCost(r, k)
	q.name(r, k)
}

// name applies k.costs, which maps names of limits to costs. In claims that count costs, these
// costs replace the costs in the policies.
func (q *question) name(r *reader, k *ask) {
	if k.costs == nil {
		return
	}
	known := map[string]bool{}
	for i := range q.verdict.Results {
		result := &q.verdict.Results[i]
		if !result.Rule.Costs {
			continue
		}
		for n := range result.Limits {
			name := result.Limits[n].Name
			known[name] = true
			if cost, ok := k.costs[name]; ok {
				if result.Costs == nil {
					result.Costs = stint.Costs{}
				}
				result.Costs[name] = cost
			}
		}
		if !result.Shadow {
			q.request.Claims[i].Costs = result.Costs
		}
	}
	delete(known, "")
	for _, name := range slices.Sorted(maps.Keys(k.costs)) {
		if !known[name] && len(q.verdict.Results) > 0 {
			names := slices.Sorted(maps.Keys(known))
			want := "name a limit, as in \"tokens: 100000/1m\""
			if len(names) > 0 {
				want = "want " + strings.Join(names, ", ")
			}
			r.wrongIn("costs."+shown(name), "no limit that counts costs has this name%s; %s",
				messages.Hint(name, names), want)
		}
	}
}

// bySubject adds to q the limits of the subject in the body, and of the subjects in the body's
// member "and". The first subject determines the failure mode. The first policy that holds
// estimates determines how long they are held.
func (a *API) bySubject(r *reader, q *question, with *reading, k *ask) {
	q.named = true
	q.verdict = policy.Verdict{Set: with.set, Tier: k.tier, Cost: 1, Decision: stint.Decision{Allowed: true}}
	if k.says("cost") {
		q.verdict.Cost = k.cost
	}
	failure := setinfo.FailureOf(with.set, k.policy, k.tier)
	q.request.Bans, q.request.Failure = &stint.BanPolicy{}, &failure
	a.hold(r, q, with, k)
	for i, also := range k.and {
		r.in(fmt.Sprintf(".and[%d]", i), func() { a.hold(r, q, with, also) })
	}
	if r.ok() {
		q.checkCost(r, k)
		q.name(r, k)
	}
}

func (a *API) hold(r *reader, q *question, with *reading, k *ask) {
	switch {
	case !k.says("limits"):
		a.byName(r, q, with, k)
	case !a.config.AdHoc:
		r.wrongIn("limits", "the server does not accept limits from callers; name a policy or a tier, or start the server with --api-ad-hoc")
	default:
		rule := &policy.Rule{Policy: adHocName, Limits: k.limits, Costs: true, Index: -1}
		q.claim(k.subject, k.scope, rule, k.limits, nil)
	}
}

func (a *API) byName(r *reader, q *question, with *reading, k *ask) {
	known := true
	expect := func(field, name string, names []string) {
		if name != "" && !slices.Contains(names, name) {
			r.wrongIn(field, "there is no %s %q%s", field, shown(name), messages.Hint(name, names))
			known = false
		}
	}
	expect("policy", k.policy, with.policies)
	expect("tier", k.tier, with.tiers)
	if !known {
		return
	}
	scope := k.policy
	switch {
	case k.says("scope"):
		scope = k.scope
	case k.policy == "":
		scope = setinfo.ScopeOf(with.set, k.tier)
	}
	rules, same := with.named[ruleName{k.policy, k.tier}]
	if !same && k.tier == "" {
		r.wrongIn("tier", "is missing: the limits of the policy %q differ by tier; want one of %s", k.policy, strings.Join(with.tiers, ", "))
		return
	}
	in := &policy.Input{Claims: k.claims}
	costs, hold := setinfo.EstimatesOf(with.set, k.policy)
	q.request.Hold = cmp.Or(q.request.Hold, hold)
	for _, rule := range rules {
		q.claim(k.subject, scope, rule, a.guard.LimitsOf(rule, k.subject, in), costs)
	}
}

func (q *question) checkCost(r *reader, k *ask) {
	if k.says("cost") && k.cost != 1 && q.claims() > 0 && q.priced() == 0 {
		r.wrongIn("cost", "no limit here counts costs; add a budget to the configuration")
	}
}

// adHocName is the policy name in answers about limits that the caller has sent.
const adHocName = "limits"

// claim adds to q a claim for a subject. limits are the limits of rule, possibly with other
// maximums. costs maps names of limits to their costs; limits that it does not name have the cost
// of q. If rule counts requests, costs is ignored and the cost is 1. The policy of the first claim
// becomes the route of q.
func (q *question) claim(subject, scope string, rule *policy.Rule, limits []stint.Limit, costs stint.Costs) {
	c := stint.Claim{Subject: subject, Scope: scope, Limits: limits, Cost: 1, Shared: subject == setinfo.Everyone}
	if rule.Costs {
		c.Cost, c.Costs = q.verdict.Cost, maps.Clone(costs)
		maps.DeleteFunc(c.Costs, func(name string, _ int64) bool {
			return !slices.ContainsFunc(limits, func(l stint.Limit) bool { return l.Name == name })
		})
	}
	if len(q.verdict.Results) == 0 {
		q.verdict.Route = rule.Policy
	}
	q.request.Claims = append(q.request.Claims, c)
	q.verdict.Results = append(q.verdict.Results, policy.Result{Rule: rule, Claim: c})
}

// decide calls the store if any claim is enforced. It passes the verdict to the guard, which logs
// it and sends it to the observer.
func (a *API) decide(ctx context.Context, q *question) {
	v := &q.verdict
	var began time.Time
	if q.named {
		began = time.Now()
	}
	if q.claims() > 0 {
		v.Decision, v.Err = a.store.Take(ctx, q.request)
	}
	if q.named {
		v.Took = time.Since(began)
	}
	a.guard.Finish(ctx, v, &q.request)
}
