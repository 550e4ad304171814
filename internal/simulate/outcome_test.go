package simulate

import (
	"slices"
	"testing"
)

func TestRank(t *testing.T) {
	for _, test := range []struct {
		n     int
		share float64
		want  int
	}{{1, 0.001, 1}, {1, 1, 1}, {100, 0.07, 7}, {100, 0.071, 8}, {1000, 0.999, 999}, {1001, 0.999, 1000}, {10, 1, 10}} {
		if got := rank(test.n, test.share); got != test.want {
			t.Errorf("%v of %d: got %d, want %d", test.share, test.n, got, test.want)
		}
	}
}

func TestTop(t *testing.T) {
	most := newTop(3, func(a, b int) int { return b - a })
	for _, v := range []int{5, 1, 9, 7, 7, 2, 8} {
		most.add(v)
	}
	if want := []int{9, 8, 7}; !slices.Equal(most.list, want) {
		t.Errorf("got %v, want %v", most.list, want)
	}
}

func TestRounded(t *testing.T) {
	for _, test := range []struct{ x, want float64 }{
		{99.9 / 100, 0.999}, {1.0 / 3, 0.33333}, {0, 0}, {1, 1}, {1e-9, 0.00001}, {1 - 1e-9, 0.99999}, {1.5, 1.5},
	} {
		if got := rounded(test.x); got != test.want {
			t.Errorf("%v: got %v, want %v", test.x, got, test.want)
		}
	}
}
