package server

import (
	"testing"
	"time"
)

// Clocks of servers that are set are noticed, by how much, and nothing else is.
func TestClockSteps(t *testing.T) {
	steps := []struct {
		name  string
		ours  time.Duration // by which our own clock was set since the start
		ahead map[string]time.Duration
		want  float64 // seconds; 0 is none
	}{
		{"at first", 0, map[string]time.Duration{"a": time.Hour}, 0},
		{"as before", 0, map[string]time.Duration{"a": time.Hour + time.Second}, 0},
		{"ahead", 0, map[string]time.Duration{"a": 2 * time.Hour}, 3599},
		{"another server", 0, map[string]time.Duration{"a": 2 * time.Hour, "b": 0}, 0},
		{"back", 0, map[string]time.Duration{"a": 2 * time.Hour, "b": -30 * time.Second}, -30},
		{"ours", time.Minute, map[string]time.Duration{"a": 2*time.Hour - time.Minute, "b": -90 * time.Second}, 0},
		{"not known", time.Minute, nil, 0},
		{"known again", time.Minute, map[string]time.Duration{"a": 0}, 0},
	}
	var c clockSteps
	count := int64(0)
	for _, s := range steps {
		got := c.look(s.ahead, s.ours, time.Now())
		if got != (s.want != 0) {
			t.Errorf("%s: %v", s.name, got)
			continue
		}
		if got {
			count++
			if c.last.By != s.want {
				t.Errorf("%s: by %v seconds, want %v", s.name, c.last.By, s.want)
			}
		}
		if c.count != count {
			t.Errorf("%s: %d steps, want %d", s.name, c.count, count)
		}
	}
}

// The share of the busiest server counts, of the time between two looks.
func TestCPUShare(t *testing.T) {
	var c cpuShare
	start := time.Unix(0, 0)
	for i, s := range []struct {
		after time.Duration // the start
		busy  map[string]time.Duration
		want  float64
	}{
		{0, map[string]time.Duration{"a": time.Hour}, 0}, // at first
		{10 * time.Second, map[string]time.Duration{"a": time.Hour + 5*time.Second}, 0.5},
		{20 * time.Second, map[string]time.Duration{"a": time.Hour + 6*time.Second, "b": time.Hour}, 0.1},
		{30 * time.Second, map[string]time.Duration{"a": time.Hour + 7*time.Second, "b": time.Hour + 9*time.Second}, 0.9},
		{40 * time.Second, map[string]time.Duration{"a": time.Second, "b": 2 * time.Second}, 0}, // restarted
		{40 * time.Second, map[string]time.Duration{"a": 2 * time.Second}, 0},                   // no time between
		{41 * time.Second, map[string]time.Duration{"a": 4 * time.Second}, 1},                   // a clock that is not exact
	} {
		if got := c.of(s.busy, start.Add(s.after)); got != s.want {
			t.Errorf("%d: %v, want %v", i, got, s.want)
		}
	}
}
