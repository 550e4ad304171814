package simulate

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

// TestSeries: steps grow with the span, and nothing is lost on the way.
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
			t.Errorf("%v: steps of %v from %v; want %v from %s", test.span, got.Step, got.Start, test.step, test.start)
		}
		want := int(begin.Add(test.span).Sub(got.Start)/test.step) + 1
		if n := len(got.Allowed); n != want || n > maxMoments || sum(got.Allowed) != steps || sum(got.Denied) != 2*steps || sum(got.Shadowed) != 3*steps {
			t.Errorf("%v: %d steps with %d, %d, %d; want %d of %d requests", test.span, n, sum(got.Allowed), sum(got.Denied), sum(got.Shadowed), want, steps)
		}
	}
}

func sum(values []int64) (total int64) {
	for _, v := range values {
		total += v
	}
	return total
}

// TestSeriesWiden: what happened is in the step that holds its time, however often steps grew.
func TestSeriesWiden(t *testing.T) {
	var s series
	for minute := range int64(2000) { // ends with steps of five minutes
		s.add(minute*60e6+59e6, &Count{Allowed: minute})
	}
	for i, m := range s.steps {
		first := int64(i) * 5
		if want := 5*first + 10; m.allowed != want {
			t.Fatalf("step %d: got %d, want %d", i, m.allowed, want)
		}
	}
}

// TestBound: a time that nanoseconds do not reach bounds as much as one that they do.
func TestBound(t *testing.T) {
	for _, test := range []struct {
		text string
		want int64
	}{
		{"0001-01-01", 7}, {"0001-01-02", minInstant}, {"1600-01-01", minInstant},
		{"1970-01-02", 86400e9}, {"2263-01-01", maxInstant}, {"9999-12-31", maxInstant},
	} {
		at, err := time.Parse(time.DateOnly, test.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := bound(at, 7); got != test.want {
			t.Errorf("%s: got %d, want %d", test.text, got, test.want)
		}
	}
}

// TestDuration: what is written as seconds is read as the same.
func TestDuration(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 1001, 290 * time.Millisecond, 1_234_567_891, 46*time.Minute + 35_000_001, 366 * 24 * time.Hour} {
		text, err := json.Marshal(Duration(d))
		var got Duration
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil || time.Duration(got) != d {
			t.Errorf("%v: got %v from %s, %v", d, got, text, err)
		}
	}
}

func TestScale(t *testing.T) {
	s := newScale()
	if !slices.IsSorted(s.numbers) || len(slices.Compact(slices.Clone(s.numbers))) != len(s.numbers) {
		t.Fatalf("not in order: %v", s.numbers)
	}
	for n, want := range map[int64]int64{
		0: 1, 1: 1, 2: 2, 7: 8, 9: 10, 11: 12, 13: 15, 16: 20, 21: 25, 61: 80, 81: 100, 101: 120,
		1023: 1200, 1024: 1200, 8001: 10_000, 123_456: 150_000, largestMax - 1: largestMax, largestMax: largestMax, largestMax + 1: largestMax,
	} {
		if got := s.numbers[s.place(n)]; got != want {
			t.Errorf("%d: got %d, want %d", n, got, want)
		}
	}
}

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
