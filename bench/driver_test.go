package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestSeries(t *testing.T) {
	for _, c := range []struct {
		s              series
		median, spread float64
	}{
		{series{3}, 3, 0},
		{series{4, 1, 3}, 3, 0.5},
		{series{4, 1, 3, 2}, 2.5, 0.2},
		{series{1, 2, 3, 4, 5, 6, 7, 8, 100}, 5, 0.4},
		{nil, 0, 0},
	} {
		if got := c.s.median(); got != c.median {
			t.Errorf("%v: median is %v; want %v", c.s, got, c.median)
		}
		if got := c.s.spread(); got != c.spread {
			t.Errorf("%v: spread is %v; want %v", c.s, got, c.spread)
		}
	}
}

func TestAlternateBeginsWithAnotherContenderEachRound(t *testing.T) {
	var order []string
	sample := func(name string) func() (float64, error) {
		return func() (float64, error) {
			order = append(order, name)
			return float64(len(order)), nil
		}
	}
	all, err := alternate(context.Background(), 2, sample("a"), sample("b"), sample("c"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(order, ""), "abcbca"; got != want {
		t.Errorf("order is %s; want %s", got, want)
	}
	if got, want := all[0], (series{1, 6}); !slices.Equal(got, want) {
		t.Errorf("first series is %v; want %v", got, want)
	}
	broken := errors.New("broken")
	_, err = alternate(context.Background(), 2, func() (float64, error) { return 0, broken })
	if !errors.Is(err, broken) {
		t.Errorf("error is %v; want %v", err, broken)
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

func TestBetween(t *testing.T) {
	got, err := between("# head\n<!-- bench:begin -->\nold\n<!-- bench:end -->\ntail\n", "\nnew\n\n")
	if want := "# head\n<!-- bench:begin -->\nnew\n<!-- bench:end -->\ntail\n"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	for _, text := range []string{"", "<!-- bench:begin -->", "<!-- bench:end --><!-- bench:begin -->"} {
		if _, err := between(text, "new"); err == nil {
			t.Errorf("%q: no error; want one for the missing markers", text)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.946: "0.946", 1.234: "1.23", 12.34: "12.3", 120: "120", 456.7: "457", 124_000_000: "124,000,000"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) is %s; want %s", v, got, want)
		}
	}
}

func TestChoose(t *testing.T) {
	chosen, err := choose("size, memory")
	if err != nil || !chosen["size"] || !chosen["memory"] || chosen["redis"] {
		t.Errorf("chosen %v, %v; want size and memory", chosen, err)
	}
	if _, err := choose("speed"); err == nil {
		t.Error("no error for an unknown suite")
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	newReport(&out).table([]string{"", "µs", ""}, [][]string{{"one", "1.50", "ok"}})
	want := "|     |   µs |     |\n| --- | ---: | --: |\n| one | 1.50 |  ok |\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s; want\n%s", got, want)
	}
}
