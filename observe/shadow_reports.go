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

// maxShadowReports is the maximum number of shadow reports that exist at a time.
const maxShadowReports = 64

// shadowReports holds the reports on rules in shadow, at most maxShadowReports. It is safe for
// concurrent use.
//
// The limits of a rule are part of the report's name, so that a rule gets a new report when its
// limits change: the earlier counts no longer apply.
type shadowReports struct {
	names *names
	start time.Time

	// recent is a cache for finding reports without a lock. It is cleared every minute, so that it
	// does not keep rules that are no longer in force. After each clearing, [shadowReports.get]
	// also tries again to create reports that did not exist because there were too many.
	recent [recentSize]atomic.Pointer[recentReport]

	mu     sync.RWMutex
	each   map[shadowName]*shadowReport
	minute int64 // the number of the current minute, counted from start
}

// recentReport is a rule with its report. The report is nil if the rule has none because there are
// too many reports.
type recentReport struct {
	rule *policy.Rule
	*shadowReport
}

type shadowName struct{ tier, policy, limits string }

func newShadowReports(n *names) *shadowReports {
	return &shadowReports{names: n, start: time.Now(), each: map[shadowName]*shadowReport{}}
}

// verdict counts an allowed request for each rule in shadow that was checked for it. If a tier or
// policy limits both requests and costs, it has two rules, which count as one. In the results, the
// rule for costs directly follows the rule for requests.
func (s *shadowReports) verdict(in shard, v *policy.Verdict) {
	if v.Decision.Repeat || v.Decision.Degraded {
		return // the store did not check rules in shadow
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

// isCostsOf reports whether both rules belong to the same tier or policy, and r limits its costs
// while the second rule limits its requests.
func isCostsOf(r, other *policy.Rule) bool {
	return r.Costs && !other.Costs && r.Tier == other.Tier && r.Policy == other.Policy
}

// of returns the report on a tier or policy. The arguments are its two rules; costs is nil if it
// has only one. The result is nil if there are too many reports.
func (s *shadowReports) of(rule, costs *policy.Rule) *shadowReport {
	at := &s.recent[recentIndex(rule.Tier, rule.Policy)]
	r := at.Load()
	if r == nil || r.rule != rule {
		r = &recentReport{rule, s.get(rule, costs)}
		at.Store(r)
	}
	return r.shadowReport
}

// get returns the report on a tier or policy. The arguments are its two rules; costs is nil if it
// has only one. A missing report is created. If there are maxShadowReports reports already, it
// replaces an idle one; if none is idle, the result is nil.
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

// removeIdle removes an idle report and reports whether there was one. The caller holds the lock.
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

// tick is called once a second. When a minute has passed, it begins the next minute in all reports.
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

// show returns the reports on the rules in shadow of the set, which may be nil, and on other rules
// that were checked in shadow in the last ten minutes. Each report has up to n subjects.
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
		snapshot := r.snapshot()
		shown := r.show(&snapshot, s.names, s.start, now, n)
		if inForce[r] || shown.Recent.Requests > 0 {
			list = append(list, shown)
		}
	}
	sortShadow(list)
	return list
}

// sortShadow sorts reports by the number of recent denials in shadow, highest first.
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
