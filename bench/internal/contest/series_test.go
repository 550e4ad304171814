package contest_test

import (
	"fmt"
	"testing"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

func TestSeries(t *testing.T) {
	for _, test := range []struct {
		s              contest.Series
		median, spread float64
	}{
		{contest.Series{3}, 3, 0},
		{contest.Series{4, 1, 3}, 3, 0.5},
		{contest.Series{4, 1, 3, 2}, 2.5, 0.2},
		{contest.Series{1, 2, 3, 4, 5, 6, 7, 8, 100}, 5, 0.4},
		{nil, 0, 0},
	} {
		if got := test.s.Median(); got != test.median {
			t.Errorf("%v: median is %v; want %v", test.s, got, test.median)
		}
		if got := test.s.Spread(); got != test.spread {
			t.Errorf("%v: spread is %v; want %v", test.s, got, test.spread)
		}
	}
}

func TestTurnsBeginWithAnotherContenderEachRound(t *testing.T) {
	var got string
	for round, which := range contest.Turns(4, 3) {
		got += fmt.Sprint(round, which, " ")
	}
	if want := "0 0 0 1 0 2 1 1 1 2 1 0 2 2 2 0 2 1 3 0 3 1 3 2 "; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}
