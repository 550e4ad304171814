package observe

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint/policy"
)

// maxShadowReports is how many reports on rules in shadow there are at a time.
const maxShadowReports = 64

// shadowReports holds a report on every rule in shadow. It is safe for concurrent use.
//
// The limits of a rule are part of its name, because what other limits would have done says nothing
// about them.
type shadowReports struct {
	names *names
	start time.Time

	// recent finds reports without a lock. It is emptied every minute, so that it neither keeps
	// rules that are no longer in force nor turns one away forever for which there was no room.
	recent [recentSize]atomic.Pointer[recentReport]

	mu     sync.RWMutex
	each   map[shadowName]*shadowReport
	minute int64 // since the start
}

// recentReport is the report that a rule was last counted in; nil if there was no room.
type recentReport struct {
	rule *policy.Rule
	*shadowReport
}

// shadowName is what a report is about.
type shadowName struct{ tier, policy, limits string }

func newShadowReports(n *names) *shadowReports {
	return &shadowReports{names: n, start: time.Now(), each: map[shadowName]*shadowReport{}}
}

// verdict counts a request that was allowed, for each tier or policy in shadow that judged it. Its
// limits on requests and those on costs count as one: the latter follow the former.
func (s *shadowReports) verdict(in shard, v *policy.Verdict) {
	if v.Decision.Repeat || v.Decision.Degraded {
		return // the store was not asked about rules in shadow
	}
	for i := 0; i < len(v.Results); i++ {
		first := &v.Results[i]
		if !first.Shadow {
			continue
		}
		rule, costs, denied := first.Rule, (*policy.Rule)(nil), first.Denied
		if i+1 < len(v.Results) && isCostsOf(v.Results[i+1].Rule, rule) {
			i++
			costs, denied = v.Results[i].Rule, denied || v.Results[i].Denied
		}
		if report := s.of(rule, costs); report != nil {
			report.add(in, s.names, first.Subject, maphash.String(s.names.seed, first.Subject), denied)
		}
	}
}

// isCostsOf reports whether a rule counts the costs of the same tier or policy whose requests
// another counts.
func isCostsOf(r, other *policy.Rule) bool {
	return r.Costs && !other.Costs && r.Tier == other.Tier && r.Policy == other.Policy
}

// of returns the report on a rule and, if it is not nil, on the one that counts costs beside it.
func (s *shadowReports) of(rule, costs *policy.Rule) *shadowReport {
	at := &s.recent[recentIndex(rule.Tier, rule.Policy)]
	r := at.Load()
	if r == nil || r.rule != rule {
		r = &recentReport{rule, s.get(rule, costs)}
		at.Store(r)
	}
	return r.shadowReport
}

// get returns the report on a rule and, if it is not nil, on the one that counts costs beside it.
// It is made if there is none. If there are too many it replaces one that is idle, and is nil if
// none is.
func (s *shadowReports) get(rule, costs *policy.Rule) *shadowReport {
	var limits []string
	for _, r := range [...]*policy.Rule{rule, costs} {
		if r == nil {
			continue
		}
		limits = append(limits, r.LimitTexts()...)
	}
	name := shadowName{clean(rule.Tier), clean(rule.Policy), strings.Join(limits, ", ")}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.each[name]; r != nil {
		return r
	}
	if len(s.each) >= maxShadowReports && !s.removeIdle() {
		return nil
	}
	r := newShadowReport(name, limits, s.minute)
	s.each[name] = r
	return r
}

// removeIdle ends a report that is idle, if there is one. The lock is held.
func (s *shadowReports) removeIdle() bool {
	for name, r := range s.each {
		if r.idle() {
			delete(s.each, name)
			s.forgetRecent()
			return true
		}
	}
	return false
}

func (s *shadowReports) forgetRecent() {
	for i := range s.recent {
		s.recent[i].Store(nil)
	}
}

// tick ends a second.
func (s *shadowReports) tick(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	minute := int64(now.Sub(s.start) / time.Minute)
	if minute <= s.minute {
		return
	}
	s.minute = minute
	s.forgetRecent()
	for _, r := range s.each {
		r.turn(minute)
	}
}

func (s *shadowReports) all() (all []*shadowReport) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, r := range s.each {
		all = append(all, r)
	}
	return all
}

// show returns the reports on the rules of a set, which may be nil, and those that judged something
// in the last minutes, each with up to n subjects.
func (s *shadowReports) show(set *policy.Set, n int, now time.Time) []ShadowReport {
	inForce := map[*shadowReport]bool{}
	if set != nil {
		rules := set.Rules()
		for i, r := range rules {
			switch {
			case r.Enforced >= 1, i > 0 && isCostsOf(r, rules[i-1]):
			case i+1 < len(rules) && isCostsOf(rules[i+1], r):
				inForce[s.get(r, rules[i+1])] = true
			default:
				inForce[s.get(r, nil)] = true
			}
		}
	}
	var list []ShadowReport
	for _, r := range s.all() {
		shown := r.show(s.names, s.start, now, n)
		if inForce[r] || shown.Recent.Requests > 0 {
			list = append(list, shown)
		}
	}
	sortShadow(list)
	return list
}

// sortShadow puts those first that would have denied most.
func sortShadow(list []ShadowReport) {
	slices.SortFunc(list, func(a, b ShadowReport) int {
		return cmp.Or(
			cmp.Compare(b.Recent.Denied, a.Recent.Denied), cmp.Compare(b.Total.Denied, a.Total.Denied),
			cmp.Compare(b.Total.Requests, a.Total.Requests), strings.Compare(a.Policy, b.Policy),
			strings.Compare(a.Tier, b.Tier),
			slices.Compare(a.Limits, b.Limits),
		)
	})
}
