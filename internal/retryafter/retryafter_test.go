package retryafter

import (
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	tests := []struct {
		wait, unit    time.Duration
		share, random float64
		want          time.Duration
	}{
		{time.Second, time.Millisecond, -1, 0.9, time.Second},
		{time.Second, time.Millisecond, 0.2, 0, time.Second},
		{time.Second, time.Millisecond, 0.2, 0.5, 1100 * time.Millisecond},
		{1500 * time.Microsecond, time.Millisecond, -1, 0, 2 * time.Millisecond},
		{0, time.Millisecond, 0.2, 0.4, time.Millisecond},
		{0, time.Second, 0.2, 0.5, 2 * time.Second},
		{1001 * time.Millisecond, time.Second, -1, 0.5, 2 * time.Second},
		{time.Second, time.Second, 0.2, 0.999, 2 * time.Second},
		{24 * time.Hour, time.Second, 0.2, 0.9999999, 24*time.Hour + time.Minute},
	}
	for _, test := range tests {
		if got := Spread(test.share, test.wait, test.unit, test.random); got != test.want {
			t.Errorf("%+v: got %v", test, got)
		}
	}
}

// TestF35Spread: those who are denied together do not come back together, and nobody too early.
func TestF35Spread(t *testing.T) {
	const callers = 1000
	const wait = 3*time.Second + time.Microsecond
	seen := map[time.Duration]bool{}
	for i := range callers {
		got := Spread(0.2, wait, time.Millisecond, float64(i)/callers)
		if got < wait || got > wait*12/10+2*time.Millisecond {
			t.Errorf("got %v for a wait of %v; want it no earlier, and a fifth later at most", got, wait)
		}
		seen[got] = true
	}
	if len(seen) < callers/2 {
		t.Errorf("%d callers come back at %d instants; want at least %d", callers, len(seen), callers/2)
	}
}
