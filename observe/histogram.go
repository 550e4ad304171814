package observe

import (
	"slices"
	"time"
)

// Durations are counted in buckets, 20 per decade, from one microsecond to ten seconds. The bounds
// are the preferred numbers of the R20 series; each is about an eighth larger than the previous
// one. With these bounds, quantiles are accurate to a few percent, and common thresholds such as 10
// or 50 ms are exact bounds.
const (
	stepsPerDecade = 20
	decades        = 7
	boundCount     = decades*stepsPerDecade + 1
	bucketCount    = boundCount + 1 // the last bucket counts durations above all bounds
)

// steps are the bounds within a decade, in hundredths of the first one.
var steps = [stepsPerDecade]time.Duration{
	100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630, 710, 800, 900,
}

// bounds are the upper bounds of all buckets but the last.
var bounds = makeBounds()

func makeBounds() (bounds [boundCount]time.Duration) {
	decade := time.Microsecond
	for i := range bounds {
		if i > 0 && i%stepsPerDecade == 0 {
			decade *= 10
		}
		bounds[i] = decade * steps[i%stepsPerDecade] / 100
	}
	return bounds
}

// bucketOf returns the bucket of a duration: the first one whose upper bound is at least d.
func bucketOf(d time.Duration) int {
	i, _ := slices.BinarySearch(bounds[:], d)
	return i
}

// histogram counts durations. It is safe for concurrent use.
type histogram struct{ tally tally }

// sumIndex is the index of the sum of all durations in the tally of a histogram.
const sumIndex = bucketCount

func newHistogram() *histogram { return &histogram{newTally(bucketCount + 1)} }

func (h *histogram) add(s shard, d time.Duration) {
	d = max(d, 0)
	h.tally.add(s, bucketOf(d), 1)
	h.tally.add(s, sumIndex, int64(d))
}

func (h *histogram) snapshot() (b buckets) {
	for i := range b {
		b[i] = h.tally.sum(i)
	}
	return b
}

func (h *histogram) sum() time.Duration { return time.Duration(h.tally.sum(sumIndex)) }

type buckets [bucketCount]int64

func (b *buckets) add(other *buckets) {
	for i, n := range other {
		b[i] += n
	}
}

// sub returns the durations added since an earlier snapshot.
func (b *buckets) sub(earlier *buckets) (since buckets) {
	for i, n := range b {
		since[i] = n - earlier[i]
	}
	return since
}

func (b *buckets) total() (n int64) {
	for _, in := range b {
		n += in
	}
	return n
}

// quantile returns the duration that the share q of all durations does not exceed. For example, q
// is 0.99 for the 99th percentile. It returns zero if there are no durations. It assumes that
// durations are spread evenly within a bucket. Durations above all bounds count as ten seconds.
func (b *buckets) quantile(q float64) time.Duration {
	total := b.total()
	if total == 0 {
		return 0
	}
	rank := q * float64(total)
	below := 0.0
	for i, in := range b {
		if in == 0 || below+float64(in) < rank {
			below += float64(in)
			continue
		}
		if i == boundCount {
			break
		}
		low := time.Duration(0)
		if i > 0 {
			low = bounds[i-1]
		}
		return low + time.Duration((rank-below)/float64(in)*float64(bounds[i]-low))
	}
	return bounds[boundCount-1]
}
