package observe

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

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
