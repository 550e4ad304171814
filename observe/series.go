package observe

import (
	"sync/atomic"
	"unsafe"

	"github.com/stint-limiter/stint/policy"
)

// outboundTier is the name of the tier under which calls to third-party APIs are shown.
const outboundTier = "outbound"

// seriesName identifies a series. A configuration may have a tier named outboundTier; the field
// outbound distinguishes this tier's series from the series of third-party APIs.
type seriesName struct {
	tier, policy string
	outbound     bool
}

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

// count counts a decision. It returns the number of decisions with this reason that were counted in
// the shard so far.
func (s *series) count(in shard, why reason) int64 { return s.tally.add(in, int(why), 1) }

type ledger struct {
	*byName[seriesName, series]
	recent [recentSize]atomic.Pointer[recentSeries]
}

// recentSeries is a series with the names by which it was looked up.
type recentSeries struct {
	tier, policy string
	*series
}

func newLedger() *ledger { return &ledger{byName: newByName(seriesName.rest, newSeries)} }

// of returns the series of a tier and policy. It first looks in a cache that is indexed by the
// addresses of the two strings, because hashing the strings would take longer than counting. Most
// callers pass the strings of the configuration, whose addresses do not change, so the cache
// usually has the series.
func (l *ledger) of(tier, policy string) *series {
	if r := l.recent[recentIndex(tier, policy)].Load(); r != nil && r.tier == tier && r.policy == policy {
		return r.series
	}
	return l.find(tier, policy)
}

// find looks up a series by its names, or creates it. It also adds the series to the cache
// l.recent.
func (l *ledger) find(tier, policy string) *series {
	s := l.get(seriesName{tier: clean(tier), policy: clean(policy)})
	l.recent[recentIndex(tier, policy)].Store(&recentSeries{tier, policy, s})
	return s
}

// recentSize is the number of entries in a cache that is indexed by recentIndex.
const recentSize = 256

// recentIndex returns the cache index of a tier and policy. It computes the index from the
// addresses of the two strings. If lookups alternate between two pairs with the same index, each
// lookup misses the cache.
func recentIndex(tier, policy string) uint8 {
	const a, b = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f // odd multipliers with irregular bits
	t, p := uintptr(unsafe.Pointer(unsafe.StringData(tier))), uintptr(unsafe.Pointer(unsafe.StringData(policy)))
	return uint8((uint64(t)*a + uint64(p)*b) >> 56)
}

// ofRoute returns the series for a request that no rule denied: the series of its route, or of the
// policy that exempts it.
func (l *ledger) ofRoute(v *policy.Verdict) *series {
	name := v.Route
	if v.Skipped != "" {
		name = v.Skipped
	}
	return l.of(v.Tier, name)
}

func (l *ledger) ofRule(r *policy.Rule) *series { return l.of(r.Tier, r.Policy) }
