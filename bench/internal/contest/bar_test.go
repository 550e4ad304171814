package contest

import (
	"strings"
	"testing"
)

func TestBars(t *testing.T) {
	atLeast := func(r *Report) *Bar { return r.AtLeast(1.8, "×", "speed") }
	atMost := func(r *Report) *Bar { return r.AtMost(1, " ms", "time") }
	tests := []struct {
		name string
		add  func(*Report) *Bar
		rows []float64
		want string
	}{
		{"at least, held", atLeast, []float64{2, 1.9, 3}, "| speed | ≥ 1.8× | 1.9× (b, there) | ok in all 3 |"},
		{"at least, as printed", atLeast, []float64{1.7996}, "| speed | ≥ 1.8× | 1.8× (a, there) |  ok |"},
		{"at least, missed", atLeast, []float64{2, 1.7, 1}, "| speed | ≥ 1.8× | 1× (c, there) | MISSED in 2 of 3 |"},
		{"at most, held", atMost, []float64{0.2, 1, 0.9}, "| time | ≤ 1 ms | 1 ms (b, there) | ok in all 3 |"},
		{"at most, as printed", atMost, []float64{1.0004}, "| time | ≤ 1 ms | 1 ms (a, there) |  ok |"},
		{"at most, barely missed", atMost, []float64{1.0006}, "| time | ≤ 1 ms | 1.001 ms (a, there) | MISSED |"},
		{"at most, missed", atMost, []float64{1.1, 0.3}, "| time | ≤ 1 ms | 1.1 ms (a, there) | MISSED in 1 of 2 |"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			r := NewReport(&out)
			b := test.add(r)
			for i, v := range test.rows {
				b.Judge(v, string(rune('a'+i)), "there")
			}
			r.verdict()
			if !strings.Contains(out.String(), test.want+"\n") {
				t.Errorf("got\n%s\nwant the row\n%s", out.String(), test.want)
			}
		})
	}
}
