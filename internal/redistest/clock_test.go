package redistest

import (
	"testing"
	"time"
)

func TestFakeTime(t *testing.T) {
	s := StartFakeTime(t)
	start := s.time(t)
	// SetClockOffset itself fails the test if TIME does not reply with the new time.
	for _, d := range []time.Duration{time.Hour, -time.Hour, 1500 * time.Millisecond, -1500 * time.Millisecond, 0} {
		s.SetClockOffset(t, d)
	}
	if start.After(s.time(t)) {
		t.Error("back at offset 0 the clock is behind where it started")
	}
	s.SetClockOffset(t, -time.Hour)
	s.CLI(t, "SET", "a", "1", "EX", "1800")
	s.SetClockOffset(t, 0)
	if got, want := s.CLI(t, "EXISTS", "a"), "0"; got != want {
		t.Errorf("a key of half an hour after a step of an hour: EXISTS got %s, want %s", got, want)
	}
	s.SetClockOffset(t, time.Hour)
	s.Restart(t)
	if got := s.time(t); got.Before(time.Now().Add(59 * time.Minute)) {
		t.Errorf("clock after a restart: got %v, want an hour ahead", got)
	}
	s.StopClock(t, start)
	s.CLI(t, "SET", "a", "1", "PX", "1")
	time.Sleep(5 * time.Millisecond)
	if got, want := s.time(t), start; !got.Equal(want) {
		t.Errorf("a stopped clock: got %v, want %v", got, want)
	}
	if got, want := s.CLI(t, "EXISTS", "a"), "1"; got != want {
		t.Errorf("a key of a millisecond under a stopped clock: EXISTS got %s, want %s", got, want)
	}
	s.StopClock(t, start.Add(2*time.Millisecond))
	if got, want := s.CLI(t, "EXISTS", "a"), "0"; got != want {
		t.Errorf("the same two milliseconds later: EXISTS got %s, want %s", got, want)
	}
}
