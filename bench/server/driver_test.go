package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
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
	got, err := l.measure(t.Context(), []contender{answering("a", true, &first), answering("b", true, &second)})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || first.Load() == 0 || second.Load() == 0 {
		t.Fatalf("got %d samples of %d and %d calls; want one of each contender", len(got), first.Load(), second.Load())
	}
	for _, s := range got {
		if s.rate <= 0 || s.p50 <= 0 || s.p99 < s.p50 || s.allowed != 1 {
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
			if _, err := l.measure(t.Context(), []contender{test.c}); err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 2, 9}, 3},
	} {
		if got := median(test.values); got != test.want {
			t.Errorf("%v: got %v, want %v", test.values, got, test.want)
		}
	}
}

func TestBars(t *testing.T) {
	tests := []struct {
		name   string
		add    func(*report) *bar
		rows   []float64
		worst  float64
		missed int
	}{
		{"at least, held", func(r *report) *bar { return r.atLeast(1.8, "x") }, []float64{2, 1.9, 3}, 1.9, 0},
		{"at least, as printed", func(r *report) *bar { return r.atLeast(1.8, "x") }, []float64{1.796}, 1.796, 0},
		{"at least, missed", func(r *report) *bar { return r.atLeast(1.8, "x") }, []float64{2, 1.7, 1}, 1, 2},
		{"at most, held", func(r *report) *bar { return r.atMost(1, "x") }, []float64{0.2, 1, 0.9}, 1, 0},
		{"at most, missed", func(r *report) *bar { return r.atMost(1, "x") }, []float64{1.1, 0.3}, 1.1, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out)
			b := test.add(r)
			for _, v := range test.rows {
				b.row("there", v)
			}
			if b.worst != test.worst || b.missed != test.missed {
				t.Errorf("got worst %v, missed %d; want %v and %d", b.worst, b.missed, test.worst, test.missed)
			}
			r.verdict()
			if got := strings.Contains(out.String(), "MISSED"); got != (test.missed > 0) {
				t.Errorf("got\n%s", out.String())
			}
		})
	}
}

func TestChoose(t *testing.T) {
	all, err := choose("")
	if err != nil || !all["rls"] || !all["memory"] {
		t.Errorf("got %v, %v; want all suites", all, err)
	}
	some, err := choose("api, gateway")
	if err != nil || some["rls"] || !some["api"] || !some["gateway"] {
		t.Errorf("got %v, %v; want two suites", some, err)
	}
	if _, err := choose("envoy"); err == nil || !strings.Contains(err.Error(), `no suite "envoy"; want any of rls`) {
		t.Errorf("got %v", err)
	}
}
