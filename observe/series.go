package observe

import (
	"sync"
	"sync/atomic"

	"github.com/stint-limiter/stint/policy"
)

// outboundTier is what calls to other people's APIs are shown under.
const outboundTier = "outbound"

// seriesName is what a series counts the decisions of. A configuration may have a tier of the name that we give to calls
// of other people's APIs; outbound tells them apart.
type seriesName struct {
	tier, policy string
	outbound     bool
}

// rest is the series of one that is too many.
func (n seriesName) rest() seriesName {
	return seriesName{tier: other, policy: other, outbound: n.outbound}
}

// series counts the decisions of a tier under a policy, by reason.
type series struct {
	name  seriesName
	tally tally
	lost  lost
}

func newSeries(name seriesName) *series {
	return &series{name: name, tally: newTally(int(reasonCount))}
}

// count counts a decision. It returns its number among those that were counted in the same place.
func (s *series) count(in shard, why reason) int64 { return s.tally.add(in, int(why), 1) }

// ledger has all series. Those of guards are found by number: to look up names would take longer than to count.
type ledger struct {
	*named[seriesName, series]

	mu    sync.Mutex // held to add a page
	pages atomic.Pointer[[]*page]
}

func newLedger() *ledger {
	l := &ledger{named: newNamed(seriesName.rest, newSeries)}
	l.pages.Store(new([]*page))
	return l
}

// maxPages is how many sets have a page: guards of one process, and those that some requests are still judged by after
// another was put in force.
const maxPages = 8

// page has the series of the verdicts by one set, as far as there were any.
type page struct {
	set   *policy.Set
	slots []atomic.Pointer[series] // by Verdict.Slot
	rules []atomic.Pointer[series] // by Rule.Index
}

// page returns the page of a set, which is made if there is none.
func (l *ledger) page(set *policy.Set) *page {
	for _, p := range *l.pages.Load() {
		if p.set == set {
			return p
		}
	}
	return l.turn(set)
}

// turn adds a page, in the place of the oldest if there are too many.
func (l *ledger) turn(set *policy.Set) *page {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := *l.pages.Load()
	for _, p := range old {
		if p.set == set {
			return p
		}
	}
	fresh := &page{set: set, slots: make([]atomic.Pointer[series], set.Slots()), rules: make([]atomic.Pointer[series], len(set.Rules()))}
	pages := append([]*page{fresh}, old[:min(len(old), maxPages-1)]...)
	l.pages.Store(&pages)
	return fresh
}

// ofVerdict returns the series of what a verdict allows or cannot decide: that of its route, or of what exempts it.
func (l *ledger) ofVerdict(p *page, v *policy.Verdict) *series {
	at := &p.slots[v.Slot()]
	s := at.Load()
	if s == nil {
		name := seriesName{tier: v.Tier, policy: v.Route}
		if v.Skipped != "" {
			name.policy = v.Skipped
		}
		s = l.get(name)
		at.Store(s)
	}
	return s
}

// ofRule returns the series of what a rule denies.
func (l *ledger) ofRule(p *page, r *policy.Rule) *series {
	at := &p.rules[r.Index]
	s := at.Load()
	if s == nil {
		s = l.get(seriesName{tier: r.Tier, policy: r.Policy})
		at.Store(s)
	}
	return s
}
