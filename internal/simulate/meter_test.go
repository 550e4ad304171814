package simulate

import (
	"testing"

	"pgregory.net/rapid"
)

// TestMeter compares the hull with a check of all pairs of charges.
func TestMeter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window = 1000
		burst := rapid.Int64Range(2, 5).Draw(t, "burst")
		var m meter
		var at, units []int64
		now := int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "charges") {
			now += rapid.Int64Range(0, 900).Draw(t, "pause")
			n := rapid.Int64Range(1, 50).Draw(t, "units")
			at, units = append(at, now), append(units, n)
			want, sum := int64(0), int64(0)
			for i := len(at) - 1; i >= 0; i-- {
				sum += units[i]
				room := burst*window + now - at[i]
				want = max(want, (sum*window+room-1)/room)
			}
			if got := m.add(now, n, window, burst); got != want {
				t.Fatalf("charges %v at %v, burst %d: got %d, want %d", units, at, burst, got, want)
			}
			if rapid.Bool().Draw(t, "settled") {
				less := rapid.Int64Range(0, n).Draw(t, "less")
				m.amend(-less)
				units[len(units)-1] -= less
			}
		}
	})
}
