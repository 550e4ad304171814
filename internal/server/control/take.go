package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/setinfo"
)

// TakeRequest is a request for [Admin.Take] to decide.
type TakeRequest struct {
	Target
	// Tier and Policy select the limits: the policy's limits for the tier or, if Policy is "", the
	// tier's own limits. Each of them may be "" unless the choice of limits would then be
	// ambiguous.
	Tier   string `json:"tier,omitempty"`
	Policy string `json:"policy,omitempty"`
	// Scope is the scope to count in. If it is "", the request counts in the policy's scope or,
	// without a policy, in the scope of requests without a route.
	Scope string `json:"scope,omitempty"`
	// Cost is the cost to charge to budgets; 0 means 1.
	Cost int64 `json:"cost,omitempty"`
	// Peek decides the request without charging it.
	Peek bool `json:"peek,omitempty"`
}

// TakeResult is a decision. Times are in seconds.
type TakeResult struct {
	Named
	Allowed bool `json:"allowed"`
	// RetryAfter is the time to wait; -1 means forever.
	RetryAfter float64 `json:"retry_after_seconds"`
	Banned     bool    `json:"banned,omitempty"`
	// Degraded reports whether the request was decided without the store.
	Degraded bool `json:"degraded,omitempty"`
	// Unavailable reports whether the request was denied only because the store is unavailable. If
	// so, the state of the limits is unknown.
	Unavailable bool    `json:"unavailable,omitempty"`
	Limits      []Limit `json:"limits"`
}

// Take decides a request as if the subject had made it. If the request is allowed, Take charges it
// unless a.Peek is set.
func (d *Admin) Take(ctx context.Context, a TakeRequest) (TakeResult, error) {
	who, err := d.find(a.Target)
	if err != nil {
		return TakeResult{}, err
	}
	if d.isHashed(who.Subject) {
		return TakeResult{}, invalid("%s is the hash of a name, and requests have the name; want the name, or inspect the hash",
			quoteSubject(who.Subject))
	}
	a.Subject = who.Subject
	result, err := d.take(ctx, a)
	result.Named = who
	return result, err
}

func (d *Admin) take(ctx context.Context, a TakeRequest) (TakeResult, error) {
	counters, err := d.countersOf(&a)
	if err != nil {
		return TakeResult{}, err
	}
	if a.Cost == 0 {
		a.Cost = 1
	}
	if a.Cost != 1 && !slices.ContainsFunc(counters, func(p counter) bool { return p.Rule.Costs }) {
		return TakeResult{}, invalid("the cost is %d, but no limit here counts costs; want 1, or a policy with a budget",
			a.Cost)
	}
	r := stint.Request{Bans: &stint.BanPolicy{}}
	if a.Peek {
		r.Mode = stint.ModePeek
	}
	for _, p := range counters {
		c := stint.Claim{Subject: a.Subject, Scope: p.Scope, Limits: p.limits, Cost: 1,
			Shared: a.Subject == setinfo.Everyone}
		if p.Rule.Costs {
			c.Cost = a.Cost
		}
		r.Claims = append(r.Claims, c)
	}
	if set := d.c.Set(); set != nil {
		failure := setinfo.FailureOf(set, counters[0].policy, counters[0].tier)
		r.Failure = &failure
	}
	if err := r.Validate(); err != nil {
		return TakeResult{}, err
	}
	decision, err := d.c.Store.Take(ctx, r)
	if err != nil {
		return TakeResult{}, err
	}
	return resultOf(counters, &decision), nil
}

func resultOf(counters []counter, d *stint.Decision) TakeResult {
	result := TakeResult{
		Allowed: d.Allowed, RetryAfter: seconds(d.RetryAfter), Banned: d.Banned, Degraded: d.Degraded,
		Unavailable: d.Unavailable, Limits: []Limit{},
	}
	if d.Unavailable {
		return result
	}
	states := d.States()
	for i := range counters {
		for range min(len(counters[i].limits), len(states)) {
			result.Limits = append(result.Limits, newLimit(&counters[i], states[0]))
			states = states[1:]
		}
	}
	return result
}

// countersOf returns the counters that count a request: those of one tier or policy, in one scope.
func (d *Admin) countersOf(a *TakeRequest) ([]counter, error) {
	list, err := d.counters(a.Subject)
	if err != nil {
		return nil, err
	}
	if len(d.c.Limits) > 0 {
		if a.Tier != "" || a.Policy != "" || a.Scope != "" {
			return nil, invalid("limits conflict with a tier, a policy or a scope; want one or the other")
		}
		return list, nil
	}
	list, err = narrow(list, "policy", a.Policy, func(p *counter) string { return p.policy })
	if err == nil {
		list, err = narrow(list, "tier", a.Tier, func(p *counter) string { return p.tier })
	}
	if err != nil {
		return nil, err
	}
	if a.Policy == "" {
		list = tiersOwn(list)
	}
	if err := oneTier(a, list); err != nil {
		return nil, err
	}
	return d.inScope(a, list)
}

// narrow returns the counters p for which of(p) is name, a tier or a policy. If name is "", it
// returns all counters. Errors contain the word in what: "tier" or "policy".
func narrow(list []counter, what, name string, of func(*counter) string) ([]counter, error) {
	if name == "" {
		return list, nil
	}
	var names []string
	var fit []counter
	for i := range list {
		if of(&list[i]) == name {
			fit = append(fit, list[i])
		}
		if n := of(&list[i]); n != "" {
			names = appendNew(names, n)
		}
	}
	if len(fit) > 0 {
		return fit, nil
	}
	if len(names) == 0 {
		return nil, invalid("no %s limits subjects like this one", what)
	}
	return nil, invalid("the %s %q limits no subjects like this one; want one of %s%s", what, shown(name),
		strings.Join(names, ", "), messages.Hint(name, names))
}

// tiersOwn returns the counters that do not belong to policies. If there are none, it returns the
// whole list.
func tiersOwn(list []counter) []counter {
	own := slices.DeleteFunc(slices.Clone(list), func(p counter) bool { return p.policy != "" })
	if len(own) == 0 {
		return list
	}
	return own
}

// oneTier returns an error if the counters belong to different policies, or if they belong to
// different tiers and have different limits.
func oneTier(a *TakeRequest, list []counter) error {
	var tiers, policies []string
	same := true
	for i := range list {
		policies = appendNew(policies, list[i].policy)
		tiers = appendNew(tiers, list[i].tier)
		same = same && slices.Equal(list[i].limits, list[0].limits)
	}
	switch {
	case len(policies) > 1:
		return invalid("several policies limit %s; want one of %s", quoteSubject(a.Subject),
			strings.Join(policies, ", "))
	case len(tiers) > 1 && !same:
		return invalid("the limits of %s depend on its tier, which its name does not show; want one of %s",
			quoteSubject(a.Subject), strings.Join(tiers, ", "))
	}
	return nil
}

// inScope returns the counters in the request's scope that have the same tier as list[0]. If the
// request has no scope, inScope uses the scope of the policy of list[0] or, if it has none, the
// scope of requests without a route.
func (d *Admin) inScope(a *TakeRequest, list []counter) ([]counter, error) {
	first := list[0]
	list = slices.DeleteFunc(slices.Clone(list), func(p counter) bool { return p.tier != first.tier })
	scope := a.Scope
	if scope == "" {
		scope = first.Scope
		if set := d.c.Set(); set != nil && first.policy == "" {
			scope = setinfo.ScopeOf(set, first.tier)
		}
	}
	var scopes []string
	var fit []counter
	for _, p := range list {
		if p.Divided && strings.HasPrefix(scope, p.Scope+":") {
			p.Scope, p.Divided = scope, false
		}
		if p.Scope == scope {
			fit = append(fit, p)
		}
		scopes = appendNew(scopes, p.Scope)
	}
	if len(fit) == 0 {
		return nil, invalid("nothing is counted in the scope %q; want one of %s%s", shown(scope), quoted(scopes),
			messages.Hint(scope, scopes))
	}
	return fit, nil
}

func appendNew(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

func quoted(texts []string) string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = fmt.Sprintf("%q", text)
	}
	return strings.Join(list, ", ")
}
