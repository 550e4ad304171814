package observe

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketOf(t *testing.T) {
	for _, d := range []time.Duration{-1, 0, 1, time.Microsecond, time.Hour, math.MaxInt64} {
		if i := bucketOf(d); i < boundCount && d > bounds[i] || i > 0 && d <= bounds[i-1] {
			t.Errorf("%v is in bucket %d", d, i)
		}
	}
	for i, bound := range bounds {
		if got := bucketOf(bound); got != i {
			t.Errorf("%v is in bucket %d, want %d, whose bound it is", bound, got, i)
		}
		if got := bucketOf(bound + 1); got != i+1 {
			t.Errorf("%v is in bucket %d, want %d", bound+1, got, i+1)
		}
	}
	for _, bound := range []time.Duration{time.Microsecond, 10 * time.Millisecond, 50 * time.Millisecond,
		10 * time.Second} {
		if !slices.Contains(bounds[:], bound) {
			t.Errorf("%v is no bound", bound)
		}
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

func TestQuantileOfFew(t *testing.T) {
	var b buckets
	if got := b.quantile(0.99); got != 0 {
		t.Errorf("of nothing: %v, want 0", got)
	}
	b[bucketOf(time.Millisecond)]++
	if got := b.quantile(0.99); got < 900*time.Microsecond || got > time.Millisecond {
		t.Errorf("of one: %v, want about 1ms", got)
	}
	earlier := b
	b[boundCount] += 3
	if got := b.quantile(0.99); got != 10*time.Second {
		t.Errorf("above all bounds: %v, want 10s", got)
	}
	if since := b.sub(&earlier); since.total() != 3 {
		t.Errorf("%d since, want 3", since.total())
	}
}
