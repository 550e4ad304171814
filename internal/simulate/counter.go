package simulate

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// counter counts the verdicts that one configuration gives.
type counter struct {
	set   *policy.Set
	store *memorystore.Store
	top   int

	counts   sums[countKey]
	rules    []RuleCount // by rule index
	limits   []LimitUse  // the limits of all rules, in the order of the rules
	first    []int       // by rule index: the index in limits of the rule's first limit
	series   series
	sizer    *sizer
	subjects map[string]*subject // the subjects that are counted separately, at most max
	max      int
	others   Count               // requests of callers that are not counted separately
	hosts    map[*subject]string // names of clients that the log identifies by host name

	// The fields below describe the last request.
	caller        string     // the caller of the request; "" if nothing limits it
	callerSubject *subject   // nil if the caller is not counted separately
	subjectsOf    []*subject // one for each result; nil for a subject without a count of its own
	shadowed      []*denials // denials of the subjects that rules in shadow would have denied
}

// countKey identifies requests that are counted together: requests with the same tier, route and
// method or, if a policy exempts them, requests with the same policy and method. skipped is the
// name of that policy, or "".
type countKey struct{ tier, route, skipped, method string }

// otherMethod stands for all methods that HTTP does not define.
const otherMethod = "other"

func newCounter(set *policy.Set, o *Options, store *memorystore.Store, sizer *sizer) *counter {
	c := &counter{
		set: set, store: store, top: o.Top, counts: sums[countKey]{},
		hosts: make(map[*subject]string), rules: []RuleCount{}, limits: []LimitUse{}, sizer: sizer,
		subjects: make(map[string]*subject), max: o.MaxSubjects,
	}
	for _, rule := range set.Rules() {
		enforced := rounded(rule.Enforced)
		if o.EnforceAll {
			enforced = 1
		}
		c.rules = append(c.rules, RuleCount{
			Policy: rule.Policy, Tier: rule.Tier, Costs: rule.Costs, Enforced: enforced,
		})
		c.first = append(c.first, len(c.limits))
		for i, limit := range rule.Limits {
			use := LimitUse{Policy: rule.Policy, Tier: rule.Tier, Costs: rule.Costs, Limit: limit}
			if rule.Claimed != nil {
				use.Claim = rule.Claimed[i].Claim
			}
			c.limits = append(c.limits, use)
		}
	}
	return c
}

func (c *counter) add(v *policy.Verdict, method string, now int64) {
	c.addUsages(v, now)
	count := Count{Requests: 1}
	switch {
	case !v.Decision.Allowed:
		count.Denied = 1
		if c.deny(v, now) {
			count.Banned = 1
		}
	case v.Skipped != "":
		count.Allowed, count.Exempt = 1, 1
	default:
		count.Allowed = 1
		if c.allow(v, now) {
			count.Shadowed = 1
		}
	}
	key := countKey{v.Tier, v.Route, v.Skipped, otherMethod}
	if i := slices.Index(syntax.Methods[:], method); i >= 0 {
		key.method = syntax.Methods[i] // a copy, because method is valid only until the next request
	}
	c.counts.add(key, &count)
	c.series.add(now, &count)
	if c.caller != "" && c.callerSubject == nil {
		c.others.add(&count)
	}
}

// addUsages records the usage of the limits that apply to a request. It also finds the caller,
// which is the first subject that does not stand for everyone. If there is none, the caller is the
// first subject.
func (c *counter) addUsages(v *policy.Verdict, now int64) {
	c.caller, c.callerSubject, c.subjectsOf = "", nil, c.subjectsOf[:0]
	everyone := true
	for i := range v.Results {
		r := &v.Results[i]
		var s *subject
		if len(r.Usages) > 0 { // otherwise the rule is in shadow, and the store was not called
			s = c.subject(r)
			if s != nil && !slices.Contains(c.subjectsOf, s) {
				s.requests++
			}
			if c.caller == "" || everyone && !r.Shared {
				c.caller, c.callerSubject, everyone = r.Subject, s, r.Shared
			}
			c.addUsage(s, r, now)
			if s != nil && !r.Denied && (r.Shadow || v.Decision.Allowed && !v.Decision.Repeat) {
				c.sizer.charge(s, r, now)
			}
		}
		c.subjectsOf = append(c.subjectsOf, s)
	}
}

// subject returns the subject of a result. It adds the subject if it is new, but returns nil if
// there are too many subjects.
func (c *counter) subject(r *policy.Result) *subject {
	s := c.subjects[r.Subject]
	if s == nil && len(c.subjects) < c.max {
		s = &subject{name: strings.Clone(r.Subject), shared: r.Shared}
		c.subjects[s.name] = s
	}
	return s
}

// addUsage counts a request to which a rule applies, and records how much of the rule's limits the
// subject has used. If s is nil, it only counts the request.
func (c *counter) addUsage(s *subject, r *policy.Result, now int64) {
	c.rules[r.Rule.Index].Requests++
	if s == nil {
		return
	}
	if s.peaks == nil {
		// Allocate room for the limits of one rule, which is enough for most subjects.
		s.peaks = make([]peak, 0, len(r.Usages))
	}
	for i := range r.Usages {
		if limit := c.index(r.Rule, &r.Limits[i]); limit >= 0 {
			s.use(limit, r.Usages[i].Used, r.Limits[i].Capacity(), now)
		}
	}
}

// nameHost records the host name that the log has for the client of the last request.
func (c *counter) nameHost(name string) {
	s := c.callerSubject
	if s != nil && c.hosts[s] == "" && strings.HasPrefix(s.name, addressKind) {
		c.hosts[s] = addressKind + strings.Clone(name)
	}
}

// addressKind is the prefix of subjects that are addresses.
const addressKind = "ip:"

// title returns the name that the report shows for a subject.
func (c *counter) title(s *subject) string { return cmp.Or(c.hosts[s], s.name) }

// index returns the index of a limit in c.limits. It returns -1 for the built-in limit on requests
// whose path can be read in too many ways, because no configuration contains that limit.
func (c *counter) index(rule *policy.Rule, l *stint.Limit) int {
	for i := range rule.Limits {
		if contract.SameID(&rule.Limits[i], l) {
			return c.first[rule.Index] + i
		}
	}
	return -1
}

// hit returns the subject that a denial by result i affects: the caller if everyone shares the
// limit, otherwise the subject of the result. It returns nil for a subject that is not counted
// separately.
func (c *counter) hit(v *policy.Verdict, i int) *subject {
	if v.Results[i].Shared {
		return c.callerSubject
	}
	return c.subjectsOf[i]
}

// deny counts a denial. It reports whether a ban that was already in force denied the request. For
// a subject that is not counted separately, every ban counts as already in force.
func (c *counter) deny(v *policy.Verdict, now int64) (inForce bool) {
	d := &v.Decision
	s := c.hit(v, max(int(d.Denier)-1, 0))
	var denials *denials
	if s != nil {
		denials = s.denied(now)
		denials.add(d.RetryAfter, now)
	}
	if d.Banned {
		if denials == nil {
			return true
		}
		if now < denials.bannedUntil {
			denials.banned++
			return true
		}
		denials.ban(max(c.banEnd(s.name), now), now)
	}
	if r := v.Decisive(); r != nil {
		c.rules[r.Rule.Index].Denied++
		if limit := c.index(r.Rule, r.Decisive().Limit); denials != nil && limit >= 0 {
			denials.by(limit).denied++
		}
	}
	return false
}

// allow counts an allowed request, and the denials by rules in shadow. It reports whether a rule in
// shadow would have denied the request. A request adds at most one to a subject's shadowed count.
func (c *counter) allow(v *policy.Verdict, now int64) (shadowed bool) {
	for _, s := range c.subjectsOf {
		if s != nil {
			s.allowed()
		}
	}
	c.shadowed = c.shadowed[:0]
	for i := range v.Results {
		r := &v.Results[i]
		if !r.Shadow || !r.Denied {
			continue
		}
		shadowed = true
		c.rules[r.Rule.Index].Shadowed++
		if s := c.hit(v, i); s != nil {
			denials := s.denied(now)
			if !slices.Contains(c.shadowed, denials) {
				c.shadowed = append(c.shadowed, denials)
				denials.shadowed++
			}
			if limit := c.index(r.Rule, r.Decisive().Limit); limit >= 0 {
				denials.by(limit).shadowed++
			}
		}
	}
	return shadowed
}

// banEnd returns the end of a subject's ban in Unix microseconds, or 0 if the store has none.
func (c *counter) banEnd(subject string) int64 {
	shown, err := c.store.Inspect(context.Background(), stint.Claim{Subject: subject})
	if err != nil || shown.Ban.Until.IsZero() {
		return 0
	}
	return shown.Ban.Until.UnixMicro()
}

func (c *Count) add(d *Count) {
	c.Requests += d.Requests
	c.Allowed += d.Allowed
	c.Denied += d.Denied
	c.Banned += d.Banned
	c.Shadowed += d.Shadowed
	c.Exempt += d.Exempt
}
