package observe

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint/policy"
)

// maxTrials is how many trials there are at a time.
const maxTrials = 64

// trialName is what a trial is of. The limits are a part of it, because what others would have done says nothing of them.
type trialName struct{ tier, policy, limits string }

// trials are those of all rules in shadow. A request that none of them judges is not looked at twice. It is safe for
// concurrent use.
type trials struct {
	names   *names
	start   time.Time
	dockets atomic.Pointer[[]*docket]
	ruled   atomic.Bool // whether there are trials by rulings

	mu     sync.RWMutex
	each   map[trialName]*trial
	minute int64 // since the start
}

func newTrials(n *names) *trials {
	ts := &trials{names: n, start: time.Now(), each: map[trialName]*trial{}}
	ts.dockets.Store(new([]*docket))
	return ts
}

// docket has the trials of a set, by the index of the first rule of each; nil if that is none in shadow.
type docket struct {
	set   *policy.Set
	cases []*trialCase
}

// trialCase is a tier's or a policy's own limits: those that count requests, costs or both.
type trialCase struct {
	rules []*policy.Rule
	trial *trial
}

// judged counts a request that was allowed, for each rule in shadow that judged it.
func (ts *trials) judged(in shard, v *policy.Verdict) {
	if v.Decision.Repeat || v.Decision.Degraded {
		return
	}
	for rule, subject := range v.Trials() {
		if c := ts.docket(v.Set()).cases[rule.Index]; c != nil {
			c.trial.judged(in, ts.names, subject, ts.hash(subject), c.denies(v))
		}
	}
}

// denies reports whether the request would have been denied by one of the rules.
func (c *trialCase) denies(v *policy.Verdict) bool {
	for _, r := range v.Shadowed {
		if slices.Contains(c.rules, r) {
			return true
		}
	}
	return false
}

// rules counts a ruling that was allowed. Whether its limit is in shadow is known once it would have denied something.
func (ts *trials) rules(in shard, r *Ruling, why reason) {
	if why != shadowed && (why != within || !ts.ruled.Load()) {
		return
	}
	name := trialName{tier: clean(r.Tier), policy: clean(r.Policy)}
	ts.mu.RLock()
	t := ts.each[name]
	ts.mu.RUnlock()
	if t == nil && why == shadowed {
		ts.ruled.Store(true)
		t = ts.get(name, nil)
	}
	if t != nil {
		t.judged(in, ts.names, r.Subject, ts.hash(r.Subject), why == shadowed)
	}
}

func (ts *trials) hash(subject string) uint64 { return maphash.String(ts.names.seed, subject) }

// docket returns that of a set, which is made if there is none.
func (ts *trials) docket(set *policy.Set) *docket {
	for _, d := range *ts.dockets.Load() {
		if d.set == set {
			return d
		}
	}
	fresh := &docket{set: set, cases: make([]*trialCase, len(set.Rules()))}
	for _, rules := range inShadow(set) {
		var limits []string
		for _, r := range rules {
			for i := range r.Limits {
				limits = append(limits, r.Limits[i].String())
			}
		}
		first := rules[0]
		name := trialName{first.Tier, first.Policy, strings.Join(limits, ", ")}
		if t := ts.get(name, limits); t != nil {
			fresh.cases[first.Index] = &trialCase{rules, t}
		}
	}
	for { // others may have made one for the same set meanwhile, with the same trials
		old := ts.dockets.Load()
		all := append([]*docket{fresh}, (*old)[:min(len(*old), maxPages-1)]...)
		if ts.dockets.CompareAndSwap(old, &all) {
			return fresh
		}
	}
}

// inShadow returns the rules of a set that have no consequences for some, those of a tier and policy together.
func inShadow(set *policy.Set) (all [][]*policy.Rule) {
	for _, r := range set.Rules() {
		if r.Enforced() >= 1 {
			continue
		}
		at := slices.IndexFunc(all, func(rules []*policy.Rule) bool { return rules[0].Tier == r.Tier && rules[0].Policy == r.Policy })
		if at < 0 {
			all = append(all, []*policy.Rule{r})
		} else {
			all[at] = append(all[at], r)
		}
	}
	return all
}

// get returns the trial of a name, which is made if there is none. If there are too many it takes the place of one that is
// idle, and is nil if none is.
func (ts *trials) get(name trialName, limits []string) *trial {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.each[name]; t != nil {
		return t
	}
	if len(ts.each) >= maxTrials && !ts.forget() {
		return nil
	}
	t := newTrial(name, limits, ts.minute)
	ts.each[name] = t
	return t
}

// forget ends a trial that is idle. The lock is held.
func (ts *trials) forget() bool {
	for name, t := range ts.each {
		if t.idle() {
			delete(ts.each, name)
			return true
		}
	}
	return false
}

// tick ends a second.
func (ts *trials) tick(now time.Time) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	minute := int64(now.Sub(ts.start) / time.Minute)
	if minute <= ts.minute {
		return
	}
	ts.minute = minute
	for _, t := range ts.each {
		t.turn(minute)
	}
}

func (ts *trials) all() (all []*trial) {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	for _, t := range ts.each {
		all = append(all, t)
	}
	return all
}

// subjectOf returns whom a ref stands for, if it is one that is counted apart.
func (ts *trials) subjectOf(ref string) (string, bool) {
	for _, t := range ts.all() {
		for _, subject := range t.subjects() {
			if ts.names.ref(subject) == ref {
				return subject, true
			}
		}
	}
	return "", false
}
