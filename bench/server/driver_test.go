package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

// answering is a contender that allows, or not, after a moment.
func answering(name string, allowed bool, calls *atomic.Int64) contender {
	return contender{name, func(context.Context, int) (bool, error) {
		calls.Add(1)
		time.Sleep(time.Microsecond)
		return allowed, nil
	}}
}

func TestMeasure(t *testing.T) {
	l := load{callers: 4, length: 5 * time.Millisecond, rounds: 3, allowed: 1}
	var first, second atomic.Int64
	got := l.measure(t.Context(), []contender{answering("a", true, &first), answering("b", true, &second)})
	if len(got) != 2 || first.Load() == 0 || second.Load() == 0 {
		t.Fatalf("got %d samples of %d and %d calls; want one of each contender", len(got), first.Load(), second.Load())
	}
	for _, s := range got {
		if s.rate <= 0 || s.p50 <= 0 || s.p99 < s.p50 {
			t.Errorf("got %+v", s)
		}
	}
}

func TestMeasureRefuses(t *testing.T) {
	l := load{callers: 2, length: time.Millisecond, rounds: 1, allowed: 1}
	var calls atomic.Int64
	broken := errors.New("broken")
	tests := []struct {
		name string
		c    contender
		want string
	}{
		{"denials in a row of admissions", answering("a", false, &calls), "a: a share of 0.000 was allowed; want 1"},
		{"errors", contender{"b", func(context.Context, int) (bool, error) { return false, broken }}, "b: broken"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := contest.Catch(func() { l.measure(t.Context(), []contender{test.c}) })
			if err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
