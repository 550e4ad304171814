package observe

import (
	"sync/atomic"
	"unsafe"

	"github.com/stint-limiter/stint/policy"
)

// outboundTier is what calls to other people's APIs are shown under.
const outboundTier = "outbound"

// seriesName is what a series counts the decisions of. A configuration may have a tier of the name
// that we give to calls of other people's APIs; outbound distinguishes them.
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
}

func newSeries(name seriesName) *series {
	return &series{name: name, tally: newTally(int(reasonCount))}
}

// count counts a decision. It returns its number among those that were counted in the same shard.
func (s *series) count(in shard, why reason) int64 { return s.tally.add(in, int(why), 1) }

type ledger struct {
	*byName[seriesName, series]
	recent [recentSize]atomic.Pointer[recentSeries]
}

// recentSeries is a series, and the names that it was last looked up by.
type recentSeries struct {
	tier, policy string
	*series
}

func newLedger() *ledger { return &ledger{byName: newByName(seriesName.rest, newSeries)} }

// of returns the series of a tier and policy. To hash two names takes longer than to count. Most
// names come again and again, as the same strings of the configuration, and for those two
// comparisons of strings are enough.
func (l *ledger) of(tier, policy string) *series {
	if r := l.recent[recentIndex(tier, policy)].Load(); r != nil && r.tier == tier && r.policy == policy {
		return r.series
	}
	return l.find(tier, policy)
}

// find looks up a series by its names, and keeps it for of.
func (l *ledger) find(tier, policy string) *series {
	s := l.get(seriesName{tier: clean(tier), policy: clean(policy)})
	l.recent[recentIndex(tier, policy)].Store(&recentSeries{tier, policy, s})
	return s
}

// recentSize is how many things of a tier and policy are found without looking into a map.
const recentSize = 256

// recentIndex is where something of a tier and policy is looked for first, by where their names lie
// in memory. Those that share an index are looked up in a map whenever they take turns.
func recentIndex(tier, policy string) uint8 {
	const a, b = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f // odd, with bits in no order
	t, p := uintptr(unsafe.Pointer(unsafe.StringData(tier))), uintptr(unsafe.Pointer(unsafe.StringData(policy)))
	return uint8((uint64(t)*a + uint64(p)*b) >> 56)
}

// ofRoute returns the series of what a verdict allows or cannot decide: that of its route, or of
// what exempts it.
func (l *ledger) ofRoute(v *policy.Verdict) *series {
	name := v.Route
	if v.Skipped != "" {
		name = v.Skipped
	}
	return l.of(v.Tier, name)
}

func (l *ledger) ofRule(r *policy.Rule) *series { return l.of(r.Tier, r.Policy) }
