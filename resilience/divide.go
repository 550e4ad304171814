package resilience

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// divide returns a process's part of a limit that so many share, rounded up: together they admit at
// most instances × ceil(Max / instances). It is valid if the limit is, and has the same identity.
func divide(l stint.Limit, instances int64) stint.Limit {
	if instances <= 1 || l.Max == 0 {
		return l
	}
	part := l
	part.Max = ceilDiv(l.Max, instances)
	switch {
	case l.Algorithm == stint.AlgorithmBucket:
		capacity := ceilDiv(l.Capacity(), instances)
		return countable(l, part.Max, func(max int64) stint.Limit {
			part.Max, part.Burst = max, capacity
			return part
		})
	case contract.HasMeter(&l):
		return countable(l, part.Max, func(max int64) stint.Limit {
			part.Max, part.Burst = max, max*(l.Burst/l.Max)
			return part
		})
	case l.Burst > 0:
		part.Burst = part.Max
	}
	return part
}

// countable returns a part of a limit with a meter that can be counted exactly. A part of a round
// rate may be an odd one: a little less often is not. If there is none, it returns what is surely
// not too much: nothing of a bucket, and no burst of a sliding limit.
func countable(l stint.Limit, want int64, withMax func(max int64) stint.Limit) stint.Limit {
	for max := want; max > 0 && max > want-256; max-- {
		if part := withMax(max); part.Validate() == nil {
			return part
		}
	}
	unit, _, tick := l.Meter()
	round := l.Window.Microseconds() / tick / unit // what the whole rate is a multiple of
	if max := want / round * round; max > 0 || l.Algorithm == stint.AlgorithmBucket {
		return withMax(max)
	}
	part := withMax(want)
	part.Burst = 0
	return part
}

func ceilDiv(a, n int64) int64 {
	if a <= 0 {
		return 0
	}
	return (a-1)/n + 1
}

// division is a list of limits and their parts.
type division struct {
	instances int64
	whole     []stint.Limit
	parts     []stint.Limit
}

// divisions caches those in use, so that none is made for every decision. There are few lists of
// limits; where two share a slot, the later one replaces the other.
type divisions struct {
	seed  maphash.Seed
	table [256]atomic.Pointer[division]
}

// of returns the division of a list of limits, which it does not keep.
func (ds *divisions) of(limits []stint.Limit, instances int64) *division {
	h := uint64(len(limits))
	for i := range limits {
		l := &limits[i]
		h = mix(h^uint64(l.Max), oddWindow^uint64(l.Window))
		h = mix(h^uint64(l.Burst), oddKind^uint64(l.Algorithm))
		if l.Name != "" {
			h = mix(h^maphash.String(ds.seed, l.Name), oddName)
		}
	}
	slot := &ds.table[h%uint64(len(ds.table))]
	if d := slot.Load(); d != nil && d.instances == instances && slices.Equal(d.whole, limits) {
		return d
	}
	d := &division{instances: instances, whole: slices.Clone(limits), parts: make([]stint.Limit, len(limits))}
	for i := range limits {
		d.parts[i] = divide(limits[i], instances)
	}
	slot.Store(d)
	return d
}
