package simulate

import (
	"slices"
	"testing"
)

func TestScale(t *testing.T) {
	s := newScale()
	if !slices.IsSorted(s) || len(slices.Compact(slices.Clone(s))) != len(s) {
		t.Fatalf("not in order: %v", s)
	}
	for n, want := range map[int64]int64{
		0: 1, 1: 1, 2: 2, 7: 8, 9: 10, 11: 12, 13: 15, 16: 20, 21: 25, 61: 80, 81: 100, 101: 120,
		1023: 1200, 1024: 1200, 8001: 10_000, 123_456: 150_000, largestMax - 1: largestMax, largestMax: largestMax,
		largestMax + 1: largestMax,
	} {
		if got := s[s.index(n)]; got != want {
			t.Errorf("%d: got %d, want %d", n, got, want)
		}
	}
}
