package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/nearest"
)

// Ask is a question about a subject: may it do something that costs so much?
type Ask struct {
	// Subject, Ref and Raw are a [Target].
	Subject string `json:"subject,omitempty"`
	Ref     string `json:"ref,omitempty"`
	Raw     bool   `json:"raw,omitempty"`
	// Tier and Policy say under which limits: those of the policy for members of the tier, or without a policy the tier's
	// own. What only one thing can be meant by may be left out.
	Tier   string `json:"tier,omitempty"`
	Policy string `json:"policy,omitempty"`
	// Scope is where to count; "" is where requests are counted that match nothing else.
	Scope string `json:"scope,omitempty"`
	// Cost is what budgets are charged; 0 is 1.
	Cost int64 `json:"cost,omitempty"`
	// Peek charges nothing.
	Peek bool `json:"peek,omitempty"`
}

// Answer is what was decided. Times are in seconds.
type Answer struct {
	Subject string `json:"subject"`
	// Note says what was made of what somebody wrote; see [Named].
	Note    string `json:"note,omitempty"`
	Allowed bool   `json:"allowed"`
	// RetryAfter is how long to wait; -1 is forever.
	RetryAfter float64 `json:"retry_after"`
	Banned     bool    `json:"banned,omitempty"`
	// Degraded says that the store could not be asked.
	Degraded bool    `json:"degraded,omitempty"`
	Limits   []Limit `json:"limits"`
}

// everyone is the subject of all callers together, whom nobody bans.
const everyone = "everyone"

// Take decides as a request would be decided, and charges it if it is allowed.
func (d *Desk) Take(ctx context.Context, a Ask) (Answer, error) {
	who, err := d.find(Target{a.Subject, a.Ref, a.Raw})
	if err != nil {
		return Answer{}, err
	}
	if d.isHashed(who.Subject) {
		return Answer{}, invalid("%s is the hash of a name, and requests have the name; want that, or inspect the hash", named(who.Subject))
	}
	a.Subject = who.Subject
	told, err := d.take(ctx, a)
	told.Subject, told.Note = who.Subject, who.Note
	return told, err
}

// take decides about a subject as requests are counted under it.
func (d *Desk) take(ctx context.Context, a Ask) (Answer, error) {
	places, err := d.placesOf(&a)
	if err != nil {
		return Answer{}, err
	}
	if a.Cost == 0 {
		a.Cost = 1
	}
	if a.Cost != 1 && !slices.ContainsFunc(places, func(p place) bool { return p.costs }) {
		return Answer{}, invalid("the cost is %d, and nothing here counts costs: limits count requests; want 1, or a policy with a budget", a.Cost)
	}
	r := stint.Request{Bans: &stint.BanPolicy{}}
	if a.Peek {
		r.Mode = stint.Peek
	}
	for i, p := range places {
		c := stint.Claim{Subject: a.Subject, Scope: p.scope, Limits: p.limits, Cost: 1, Shared: a.Subject == everyone}
		if p.costs {
			c.Cost = a.Cost
		}
		if i == 0 {
			r.Claim = c
		} else {
			r.And = append(r.And, c)
		}
	}
	if set := d.set(); set != nil {
		failure := set.FailureOf(places[0].policy, places[0].tier)
		r.Failure = &failure
	}
	if err := r.Validate(); err != nil {
		return Answer{}, err
	}
	decision, err := d.c.Store.Take(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	return answerOf(places, &decision), nil
}

func answerOf(places []place, d *stint.Decision) Answer {
	told := Answer{
		Allowed: d.Allowed, RetryAfter: seconds(d.RetryAfter), Banned: d.Banned, Degraded: d.Degraded,
		Limits: []Limit{},
	}
	states := d.States()
	for i := range places {
		for range min(len(places[i].limits), len(states)) {
			told.Limits = append(told.Limits, limitOf(&places[i], states[0]))
			states = states[1:]
		}
	}
	return told
}

// placesOf returns what a question is about: the limits of one tier or policy, in one scope.
func (d *Desk) placesOf(a *Ask) ([]place, error) {
	all, err := d.places(a.Subject)
	if err != nil {
		return nil, err
	}
	if len(d.c.Limits) > 0 {
		if a.Tier != "" || a.Policy != "" || a.Scope != "" {
			return nil, invalid("a tier, a policy or a scope beside limits; want one or the other")
		}
		return all, nil
	}
	all, err = narrow(all, "policy", a.Policy, func(p *place) string { return p.policy })
	if err == nil {
		all, err = narrow(all, "tier", a.Tier, func(p *place) string { return p.tier })
	}
	if err != nil {
		return nil, err
	}
	if a.Policy == "" {
		all = tiersOwn(all)
	}
	if err := oneTier(a, all); err != nil {
		return nil, err
	}
	return d.inScope(a, all)
}

// narrow returns the places that have a name; all of them if that is "".
func narrow(all []place, what, name string, of func(*place) string) ([]place, error) {
	if name == "" {
		return all, nil
	}
	var names []string
	var fit []place
	for i := range all {
		if of(&all[i]) == name {
			fit = append(fit, all[i])
		}
		if n := of(&all[i]); n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if len(fit) > 0 {
		return fit, nil
	}
	if len(names) == 0 {
		return nil, invalid("no %s limits subjects like this one", what)
	}
	return nil, invalid("the %s %q limits no subjects like this one; want one of %s%s", what, shown(name), strings.Join(names, ", "), nearest.Hint(name, names))
}

// tiersOwn returns the limits of tiers without those of policies, unless there are no others.
func tiersOwn(all []place) []place {
	own := slices.DeleteFunc(slices.Clone(all), func(p place) bool { return p.policy != "" })
	if len(own) == 0 {
		return all
	}
	return own
}

// oneTier reports limits that differ from tier to tier, or from policy to policy, if nobody said whose are meant.
func oneTier(a *Ask, all []place) error {
	var tiers, policies []string
	same := true
	for i := range all {
		if !slices.Contains(policies, all[i].policy) {
			policies = append(policies, all[i].policy)
		}
		if !slices.Contains(tiers, all[i].tier) {
			tiers = append(tiers, all[i].tier)
		}
		same = same && slices.Equal(all[i].limits, all[0].limits)
	}
	switch {
	case len(policies) > 1:
		return invalid("several policies limit %s; which is meant? want one of %s", named(a.Subject), strings.Join(policies, ", "))
	case len(tiers) > 1 && !same:
		return invalid("the limits of %s depend on its tier, which its name does not tell; want one of %s", named(a.Subject), strings.Join(tiers, ", "))
	}
	return nil
}

// inScope returns the places of one tier and of one scope: that of the question, or where a request would be counted that
// has no route.
func (d *Desk) inScope(a *Ask, all []place) ([]place, error) {
	first := all[0]
	all = slices.DeleteFunc(slices.Clone(all), func(p place) bool { return p.tier != first.tier })
	scope := a.Scope
	if scope == "" {
		scope = first.scope
		if set := d.set(); set != nil && first.policy == "" {
			scope = set.ScopeOf(first.tier)
		}
	}
	var scopes []string
	var fit []place
	for _, p := range all {
		if p.divided && strings.HasPrefix(scope, p.scope+":") {
			p.scope, p.divided = scope, false
		}
		if p.scope == scope {
			fit = append(fit, p)
		}
		if !slices.Contains(scopes, p.scope) {
			scopes = append(scopes, p.scope)
		}
	}
	if len(fit) == 0 {
		return nil, invalid("nothing is counted in the scope %q; want one of %s%s", shown(scope), quoted(scopes), nearest.Hint(scope, scopes))
	}
	return fit, nil
}

func quoted(texts []string) string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = fmt.Sprintf("%q", text)
	}
	return strings.Join(list, ", ")
}
