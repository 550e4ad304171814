package resilience

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/stint-limiter/stint"
)

// divide returns a process's part of a limit that so many share, rounded up: together
// they admit at most instances × ceil(Max / instances). It is valid if the limit is,
// and has the same identity.
func divide(l stint.Limit, instances int64) stint.Limit {
	if instances <= 1 || l.Max == 0 {
		return l
	}
	part := l
	part.Max = ceilDiv(l.Max, instances)
	switch l.Algorithm {
	case stint.Sliding:
		if l.Burst > 0 {
			part.Burst = part.Max * (l.Burst / l.Max) // the same number of windows
		}
	case stint.Bucket:
		part.Burst = ceilDiv(l.Capacity(), instances)
		part.Max = bucketRate(l, part)
	}
	return part
}

// bucketRate returns a rate for a part of a bucket that can be counted exactly. A
// part of a round rate may be an odd one: a little less often is not. If there is none,
// what is surely not too much: nothing.
func bucketRate(l, part stint.Limit) int64 {
	want := part.Max
	for range 256 {
		if part.Max <= 0 || part.Validate() == nil {
			return max(part.Max, 0)
		}
		part.Max--
	}
	unit, _ := l.BucketScale()
	round := l.Window.Microseconds() / unit // what the whole rate is a multiple of
	return want / round * round
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

// divisions holds those that are in use, so that none is made for every decision. There are
// few lists of limits; where two meet in one place, the later one replaces the other.
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
	place := &ds.table[h%uint64(len(ds.table))]
	if d := place.Load(); d != nil && d.instances == instances && slices.Equal(d.whole, limits) {
		return d
	}
	d := &division{instances: instances, whole: slices.Clone(limits), parts: make([]stint.Limit, len(limits))}
	for i := range limits {
		d.parts[i] = divide(limits[i], instances)
	}
	place.Store(d)
	return d
}
