package grpclimit

import (
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	tests := []struct {
		wait          time.Duration
		share, random float64
		want          time.Duration
	}{
		{time.Second, 0, 0.9, time.Second},
		{time.Second, 0.2, 0, time.Second},
		{time.Second, 0.2, 0.5, 1100 * time.Millisecond},
		{1500 * time.Microsecond, 0, 0, 2 * time.Millisecond},
		{time.Microsecond, 0.2, 0.5, time.Millisecond},
		{0, 0.2, 0.5, time.Millisecond},
		{24 * time.Hour, 0.2, 0.5, 24*time.Hour + 30*time.Second},
	}
	for _, test := range tests {
		if got := spread(test.wait, test.share, test.random); got != test.want {
			t.Errorf("spread(%v, %v, %v): got %v, want %v", test.wait, test.share, test.random, got, test.want)
		}
	}
}

func TestF35Spread(t *testing.T) {
	const callers = 1000
	const wait = 3*time.Second + time.Microsecond
	seen := map[time.Duration]bool{}
	for i := range callers {
		got := spread(wait, 0.2, float64(i)/callers)
		if got < wait || got > wait*12/10+time.Millisecond {
			t.Errorf("got %v for a wait of %v; want it no earlier, and a fifth later at most", got, wait)
		}
		seen[got] = true
	}
	if len(seen) < callers/2 {
		t.Errorf("%d callers come back at %d instants; want at least %d", callers, len(seen), callers/2)
	}
}
