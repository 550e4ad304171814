package observe

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/testkit"
)

func TestByNameIsBounded(t *testing.T) {
	n := newByName[string, int](anyOther, nil)
	first := n.get("0")
	for i := range 3 * maxSeries {
		*n.get(strconv.Itoa(i)) = i
	}
	names, items := []string{}, []*int{}
	for name, item := range n.all() {
		names, items = append(names, name), append(items, item)
	}
	if len(items) != maxSeries+1 || names[7] != "7" || *items[7] != 7 || names[maxSeries] != other {
		t.Errorf("%d things, the last is %s, want %d and %s", len(items), names[len(names)-1], maxSeries, other)
	}
	if n.get("0") != first || items[0] != first || n.get("a stranger") != items[maxSeries] {
		t.Error("the first is another, or a stranger is not one of the others")
	}
}

// TestQuantiles compares with exact ones, on distributions of all shapes.
func TestQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() float64{
		"even":      func() float64 { return random.Float64() * 1e8 },
		"decaying":  func() float64 { return random.ExpFloat64() * 2e6 },
		"lognormal": func() float64 { return math.Exp(random.NormFloat64()*2 + 13) },
		"two peaks": func() float64 { return []float64{3e4, 4e8}[random.IntN(2)] * (1 + 0.2*random.Float64()) },
	} {
		h := newHistogram()
		exact := make([]time.Duration, 20_000)
		var sum time.Duration
		for i := range exact {
			exact[i] = time.Duration(min(max(draw(), 1e3), 1e10))
			sum += exact[i]
			h.add(shard(i%shards), exact[i])
		}
		slices.Sort(exact)
		b := h.snapshot()
		if b.total() != int64(len(exact)) || h.sum() != sum {
			t.Errorf("%s: %d durations with a sum of %v; want %d with %v", name, b.total(), h.sum(), len(exact), sum)
		}
		for _, q := range []float64{0.01, 0.25, 0.45, 0.9, 0.99, 0.999} {
			got, want := b.quantile(q), exact[int(q*float64(len(exact)))]
			if off := math.Abs(float64(got)/float64(want) - 1); off > 0.07 {
				t.Errorf("%s: the quantile %v is %v, want %v: off by %.1f%%", name, q, got, want, 100*off)
			}
		}
	}
}

// TestDistinct: exact while they are few, then within four standard errors, whether counted at once
// or in parts that overlap.
func TestDistinct(t *testing.T) {
	testkit.SkipUnderRace(t)
	for _, n := range []int{0, 1, 499, 500, 501, 1000, 4096, 10_000, 20_000, 100_000, 1_000_000} {
		random := rand.New(rand.NewPCG(1, uint64(n)))
		var whole, merged distinct
		var parts [3]distinct
		for i := range n {
			hash := random.Uint64()
			whole.add(hash)
			whole.add(hash)
			parts[i%3].add(hash)
			parts[(i+i/3)%3].add(hash)
		}
		for i := range parts {
			merged.merge(&parts[i])
		}
		if got := merged.count(); got != whole.count() || merged.exact() != whole.exact() {
			t.Errorf("%d: the parts count %d, and the whole %d", n, got, whole.count())
		}
		off := math.Abs(float64(whole.count()-int64(n))) / max(1, float64(n))
		if whole.exact() != (n <= distinctExact) || whole.exact() && off != 0 ||
			off > 4*1.04/math.Sqrt(1<<distinctPrecision) {
			t.Errorf("%d: got %d, exact is %t", n, whole.count(), whole.exact())
		}
	}
}
