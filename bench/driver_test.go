package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

func TestAlternate(t *testing.T) {
	var order []string
	sample := func(name string) func() float64 {
		return func() float64 {
			order = append(order, name)
			return float64(len(order))
		}
	}
	all := alternate(t.Context(), 2, sample("a"), sample("b"), sample("c"))
	if got, want := strings.Join(order, ""), "abcbca"; got != want {
		t.Errorf("order is %s; want %s", got, want)
	}
	if got, want := all[0], ([]float64{1, 6}); !slices.Equal(got, want) {
		t.Errorf("the first samples are %v; want %v", got, want)
	}
}

func TestAlternateEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := contest.Catch(func() { alternate(ctx, 2, func() float64 { calls++; cancel(); return 0 }) })
	if !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("error is %v after %d calls; want %v after the first", err, calls, context.Canceled)
	}
}

func TestFastestIsAmongTheOthers(t *testing.T) {
	if got, want := fastest([]contest.Series{{1}, {4, 4}, {3, 2}, {5}}), 2; got != want {
		t.Errorf("got %d; want %d", got, want)
	}
}

func TestWalkersGoOnWhereTheyStopped(t *testing.T) {
	w := pattern{[]string{"a", "b", "c"}, 2}.walkers(3)[2]
	var got []string
	for range 7 {
		got = append(got, w.next())
	}
	if want := "ccaabbc"; strings.Join(got, "") != want {
		t.Errorf("walked %v; want %s", got, want)
	}
}
