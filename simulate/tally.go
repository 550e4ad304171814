package simulate

import (
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// tally counts verdicts by one set.
type tally struct {
	set   *policy.Set
	store *memorystore.Store
	top   int

	places []place       // by slot of the verdict
	rules  []PolicyCount // by index of the rule
	limits []limitOf     // of all rules, numbered in their order
	firsts []int         // the number of each rule's first limit
	ruleOf map[*stint.Limit]*policy.Rule
	series series
	table  table
	others Count

	// Of the request that is being counted:
	touched []*subject // whom it concerns, of those who are told apart
	who     string     // whose it is; "" if nothing limits it
	shared  bool       // that is everyone
	caller  *subject   // that one; nil if it is not told apart
	hits    []*hit     // see shadow
}

// place is what requests of one tier and route, or exempted by one policy, have in common.
type place struct {
	tier, route, skipped string
	methods              [methods]Count
}

// limitOf is a limit, and whose it is.
type limitOf struct {
	*stint.Limit
	rule *policy.Rule
}

func newTally(set *policy.Set, o *Options, store *memorystore.Store) *tally {
	t := &tally{
		set: set, store: store, top: o.Top, places: make([]place, set.Slots()),
		rules: []PolicyCount{}, ruleOf: make(map[*stint.Limit]*policy.Rule),
		table: newTable(o.MaxSubjects),
	}
	for _, rule := range set.Rules() {
		enforced := rule.Enforced()
		if o.EnforceAll {
			enforced = 1
		}
		t.rules = append(t.rules, PolicyCount{Policy: rule.Policy, Tier: rule.Tier, Costs: rule.Costs, Enforced: enforced})
		t.firsts = append(t.firsts, len(t.limits))
		t.ruleOf[&rule.Limits[0]] = rule
		for i := range rule.Limits {
			t.limits = append(t.limits, limitOf{&rule.Limits[i], rule})
		}
	}
	return t
}

// add counts a verdict, and what was asked about rules in shadow.
func (t *tally) add(v *policy.Verdict, shadow []take, method string, now int64) {
	t.touch(v, shadow, now)
	p := &t.places[v.Slot()]
	p.tier, p.route, p.skipped = v.Tier, v.Route, v.Skipped
	became := Count{Requests: 1}
	if v.Decision.Allowed {
		became.Allowed = 1
		for _, s := range t.touched {
			s.allowed()
		}
		if len(v.Shadowed) > 0 {
			became.Shadowed = 1
			t.shadow(shadow, now)
		}
		if v.Skipped != "" {
			became.Exempt = 1
		}
	} else {
		became.Denied = 1
		if t.deny(v, now) {
			became.Banned = 1
		}
	}
	p.methods[methodIndex(method)].add(&became)
	t.series.add(now, &became)
	if t.who != "" && t.caller == nil {
		t.others.add(&became)
	}
}

// touch counts what each claim of a request used, and finds out whose the request is: the first claim's that is not
// everyone's.
func (t *tally) touch(v *policy.Verdict, shadow []take, now int64) {
	t.touched, t.who, t.caller = t.touched[:0], "", nil
	d := &v.Decision
	usages, and := d.Usages(), d.Charge.And()
	for i, rule := range v.Rules() {
		c := &d.Charge.Claim
		if i > 0 {
			c = &and[i-1]
		}
		n := len(rule.Limits)
		t.use(c, rule, usages[:n], now)
		usages = usages[n:]
	}
	for i := range shadow {
		c := &shadow[i].claim
		t.use(c, t.ruleOf[&c.Limits[0]], shadow[i].decision.Usages(), now)
	}
}

// use counts what a claim used.
func (t *tally) use(c *stint.Claim, rule *policy.Rule, usages []stint.Usage, now int64) {
	t.rules[rule.Index].Requests++
	s := t.touchedAs(c.Subject)
	if s == nil {
		if s = t.table.of(c.Subject, c.Shared); s != nil {
			t.touched = append(t.touched, s)
			s.requests++
		}
	}
	if t.who == "" || t.shared && !c.Shared {
		t.who, t.shared, t.caller = c.Subject, c.Shared, s
	}
	if s != nil {
		s.use(t.firsts[rule.Index], usages, now)
	}
}

// touchedAs returns the subject of that name that the request concerns, or nil: there are one or two of them.
func (t *tally) touchedAs(name string) *subject {
	for _, s := range t.touched {
		if s.name == name {
			return s
		}
	}
	return nil
}

// hitBy returns who is hit by what a claim denies: its subject, or if that is everyone, the caller. It is nil for one
// that is not told apart.
func (t *tally) hitBy(c *stint.Claim) *subject {
	if c.Shared {
		return t.caller
	}
	return t.touchedAs(c.Subject)
}

// deny counts a denial. It reports whether that was for a ban that was in force already. Of subjects that are not told
// apart that is not known: theirs count as such.
func (t *tally) deny(v *policy.Verdict, now int64) (banned bool) {
	d := &v.Decision
	c := &d.Charge.Claim
	if d.Decider > 0 {
		c = &d.Charge.And()[d.Decider-1]
	}
	s := t.hitBy(c)
	if s == nil {
		if !d.Banned {
			t.blame(nil, v)
		}
		return d.Banned
	}
	h := s.hit(now)
	h.deny(d.RetryAfter, now)
	if d.Banned {
		if now < h.bannedUntil {
			return true
		}
		h.ban(max(t.banEnd(s.name), now), now)
	}
	t.blame(h, v)
	return false
}

// blame counts which limit denied: the one that does so for the longest.
func (t *tally) blame(h *hit, v *policy.Verdict) {
	rule, state := v.Decisive()
	if rule == nil {
		return
	}
	t.rules[rule.Index].Denied++
	if h != nil {
		h.blame(t.limitOf(rule, state.Limit)).denied++
	}
}

// shadow counts what rules in shadow would have denied: one request for every subject that any of them is about.
func (t *tally) shadow(shadow []take, now int64) {
	t.hits = t.hits[:0]
	for i := range shadow {
		c, d := &shadow[i].claim, &shadow[i].decision
		if d.Allowed {
			continue
		}
		rule := t.ruleOf[&c.Limits[0]]
		t.rules[rule.Index].Shadowed++
		s := t.hitBy(c)
		if s == nil {
			continue
		}
		h := s.hit(now)
		if !slices.Contains(t.hits, h) {
			t.hits = append(t.hits, h)
			h.shadowed++
		}
		h.blame(t.limitOf(rule, d.Decisive().Limit)).shadowed++
	}
}

// limitOf returns the number of a rule's limit.
func (t *tally) limitOf(rule *policy.Rule, l *stint.Limit) int {
	for i := range rule.Limits {
		if &rule.Limits[i] == l {
			return t.firsts[rule.Index] + i
		}
	}
	return t.firsts[rule.Index]
}

// add adds another count.
func (c *Count) add(d *Count) {
	c.Requests += d.Requests
	c.Allowed += d.Allowed
	c.Denied += d.Denied
	c.Banned += d.Banned
	c.Shadowed += d.Shadowed
	c.Exempt += d.Exempt
}

// methodNames are the methods that are counted by themselves, and what stands for all others.
var methodNames = [methods]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "other"}

const methods = 10

func methodIndex(method string) int {
	for i := range methodNames[:methods-1] {
		if methodNames[i] == method {
			return i
		}
	}
	return methods - 1
}
