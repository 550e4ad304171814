package simulate

import (
	"testing"
	"time"
)

// TestSeries: steps grow with the time span, and no request is lost.
func TestSeries(t *testing.T) {
	begin := time.Date(2026, time.March, 4, 5, 6, 7, 0, time.UTC)
	tests := []struct {
		span  time.Duration
		step  time.Duration
		start string
	}{
		{0, time.Second, "05:06:07"},
		{479 * time.Second, time.Second, "05:06:07"},
		{480 * time.Second, 5 * time.Second, "05:06:05"},
		{8 * time.Hour, 5 * time.Minute, "05:05:00"},
		{24 * time.Hour, 5 * time.Minute, "05:05:00"},
		{7 * 24 * time.Hour, time.Hour, "05:00:00"},
		{50 * 365 * 24 * time.Hour, 70 * 24 * time.Hour, "00:00:00"},
	}
	for _, test := range tests {
		var s series
		const steps = 1000
		for i := range steps {
			at := begin.Add(test.span / (steps - 1) * time.Duration(i))
			s.add(at.UnixMicro(), &Count{Allowed: 1, Denied: 2, Shadowed: 3})
		}
		s.add(begin.Add(test.span).UnixMicro(), &Count{})
		got := s.result()
		if got.Step != Duration(test.step) || got.Start.Format(time.TimeOnly) != test.start {
			t.Errorf("%v: steps of %v from %v; want %v from %s", test.span, time.Duration(got.Step), got.Start,
				test.step, test.start)
		}
		want := int(begin.Add(test.span).Sub(got.Start)/test.step) + 1
		if n := len(got.Allowed); n != want || n > maxSteps || sum(got.Allowed) != steps ||
			sum(got.Denied) != 2*steps || sum(got.Shadowed) != 3*steps {
			t.Errorf("%v: %d steps with %d, %d, %d; want %d of %d requests", test.span, n, sum(got.Allowed),
				sum(got.Denied), sum(got.Shadowed), want, steps)
		}
	}
}

func sum(values []int64) (total int64) {
	for _, v := range values {
		total += v
	}
	return total
}
